package checker

import "slices"

// redriven says whether dead letters may have been put back into a partition.
func (x *index) redriven(p Partition) bool {
	for i := range x.h.Redrives {
		if x.h.Redrives[i].Topic == p.Topic+1 {
			return true
		}
	}
	return false
}

// redrives: a dead letter comes back into its topic at most once, however often
// that was asked for and whenever it was cut off; and once where a walk came to
// its end behind it, unless it was purged.
//
// A message has a copy for each dead letter of it that came back, of whichever
// group, so copies and dead letters are counted by message.
func redrives(x *index) (found []Finding) {
	for i := range x.h.Logs {
		twin := &x.h.Logs[i]
		if source := x.logs[Partition{twin.Partition.Topic - 1, twin.Partition.Partition}]; twin.Twin && source != nil && x.redriven(source.Partition) {
			found = append(found, x.comeBack(source, twin)...)
		}
	}
	return append(found, x.redriveCounts()...)
}

func (x *index) comeBack(source, twin *Log) (found []Finding) {
	type count struct{ dead, must, records int }
	counts := map[uint64]*count{}
	until := x.walkedUntil(twin.Partition)
	for j := range twin.Records {
		c := counts[twin.Records[j].Payload]
		if c == nil {
			c = &count{}
			counts[twin.Records[j].Payload] = c
		}
		c.dead++
		if uint64(j+1) <= until {
			c.must++
		}
	}
	for j := range source.Records {
		r := &source.Records[j]
		c := counts[r.Payload]
		if c == nil {
			c = &count{}
			counts[r.Payload] = c
		}
		if c.records++; c.records > 1+c.dead {
			found = append(found, finding(PropertyRedrive, 0, "%v holds message %x %d times, at %d for the last time; it has %d dead letters that can have come back, each once",
				source.Partition, r.Payload, c.records, j+1, c.dead))
		}
	}
	for j := range twin.Records {
		r := &twin.Records[j]
		if c := counts[r.Payload]; c.records < 1+c.must {
			found = append(found, finding(PropertyRedrive, 0, "%v holds message %x %d times; %d dead letters of it were put back, that at %d in the twin among them",
				source.Partition, r.Payload, c.records, c.must, j+1))
			c.must = 0
		}
	}
	return found
}

// walkedUntil gives the sequence of a twin up to which every dead letter came
// back for certain: a walk came to its end, and nobody had asked for a purge by
// then.
func (x *index) walkedUntil(twin Partition) (until uint64) {
	first := Forever
	for i := range x.h.Purges {
		if p := &x.h.Purges[i]; p.Topic == twin.Topic {
			first = min(first, p.Call)
		}
	}
	for i := range x.h.Redrives {
		r := &x.h.Redrives[i]
		if r.Topic == twin.Topic && r.Done && r.Return <= first && int(twin.Partition) < len(r.Until) {
			until = max(until, r.Until[twin.Partition])
		}
	}
	return until
}

// redriveCounts: as many came back as those who asked were told, or more where
// an answer was lost.
func (x *index) redriveCounts() (found []Finding) {
	var topics []uint16
	told, lost := map[uint16]uint64{}, map[uint16]bool{}
	for i := range x.h.Redrives {
		r := &x.h.Redrives[i]
		if !slices.Contains(topics, r.Topic) {
			topics = append(topics, r.Topic)
		}
		told[r.Topic] += r.Redriven
		lost[r.Topic] = lost[r.Topic] || !r.Done
	}
	for _, t := range topics {
		came := uint64(0)
		for i := range x.h.Logs {
			if l := &x.h.Logs[i]; l.Partition.Topic == t-1 {
				came += l.repeats()
			}
		}
		if came < told[t] || came > told[t] && !lost[t] {
			found = append(found, finding(PropertyRedrive, 0, "%d dead letters are back in topic %d, and those who asked for it were told of %d", came, t-1, told[t]))
		}
	}
	return found
}

// repeats counts the records beyond the first of each message.
func (l *Log) repeats() (n uint64) {
	seen := map[uint64]bool{}
	for i := range l.Records {
		if p := l.Records[i].Payload; seen[p] {
			n++
		} else {
			seen[p] = true
		}
	}
	return n
}
