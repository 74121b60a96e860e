package checker

import (
	"testing"

	"github.com/mortarmq/mortarmq/wire"
)

func msg(sequence, delivery, ownership, member uint64, at Time) Delivery {
	return Delivery{Group: "g", Member: member, Partition: part, Sequence: sequence, DeliveryID: delivery, Ownership: ownership, Attempt: 1, Payload: sequence, At: at}
}

func ack(sequence, delivery, ownership uint64, call, ret Time) Settle {
	return Settle{Group: "g", Partition: part, Sequence: sequence, DeliveryID: delivery, Ownership: ownership, Call: call, Return: ret, Outcome: OK}
}

// sound is a small history that holds, drained: the tests break one thing each.
func sound() *History {
	return &History{
		Publishes:  []Publish{published(1, 1, 10, 20), published(2, 2, 15, 30), published(3, 3, 31, 40)},
		Deliveries: []Delivery{msg(1, 101, 1, 5, 50), msg(2, 102, 1, 5, 51), msg(3, 103, 1, 5, 52)},
		Settles:    []Settle{ack(1, 101, 1, 60, 70), ack(2, 102, 1, 61, 71), ack(3, 103, 1, 62, 72)},
		Logs:       []Log{logOf(1, 2, 3), {Partition: Partition{Topic: 2}, Twin: true}},
		Books: []Book{
			{At: 45, Group: "g", Partition: part, LastSeq: 3, NextFirst: 1, Unsettled: 3, Ownership: 1},
			{At: 99, Group: "g", Partition: part, LastSeq: 3, Floor: 3, NextFirst: 4, Delivered: 3, Ownership: 1},
		},
		Drained: true,
	}
}

// Goal: a sound history holds, and each bug that is planted in it is found, by
// the property that is there for it.
func TestPlanted(t *testing.T) {
	expect(t, sound())
	for _, c := range []struct {
		name  string
		plant func(*History)
		want  []string
	}{
		{"lost write", func(h *History) {
			p := published(4, 4, 41, 42)
			h.Publishes = append(h.Publishes, p)
		}, []string{PropertyLost}},
		{"duplicate payload", func(h *History) {
			h.Logs[0] = logOf(1, 2, 3, 3)
			h.Drained = false
		}, []string{PropertyDuplicate}},
		{"duplicate producer sequence", func(h *History) {
			h.Logs[0].Records[2].ProducerSeq = 2
		}, []string{PropertyDuplicate}},
		{"inconsistent offset", func(h *History) { h.Deliveries[1].Payload = 1 }, []string{PropertyInconsistent}},
		{"aborted read", func(h *History) {
			h.Publishes[2].Outcome, h.Publishes[2].Code = Refused, wire.CodeBackpressure
		}, []string{PropertyAborted}},
		{"read of nothing", func(h *History) { h.Publishes = h.Publishes[:2] }, []string{PropertyAborted}},
		{"non-monotonic poll", func(h *History) {
			h.Deliveries[0], h.Deliveries[1] = msg(2, 101, 1, 5, 50), msg(1, 102, 1, 5, 51)
			h.Settles = nil
			h.Deliveries[2].Attempt = 2
			h.Drained = false
		}, []string{PropertyNonMonotonic}},
		{"skipping poll", func(h *History) {
			h.Deliveries = h.Deliveries[:1]
			h.Deliveries = append(h.Deliveries, msg(3, 103, 1, 5, 52))
			h.Drained = false
		}, []string{PropertySkipping}},
		{"unseen", func(h *History) {
			h.Deliveries = h.Deliveries[:2]
			h.Settles[2].Outcome = Unknown
		}, []string{PropertyUnseen}},
		{"unsettled in the end", func(h *History) {
			h.Settles = h.Settles[:2]
			h.Books[1].Delivered, h.Books[1].Unsettled, h.Books[1].Floor = 2, 1, 2
		}, []string{PropertyAtLeastOnce}},
		{"counted without an ACK", func(h *History) {
			h.Settles[2].Outcome, h.Settles[2].Code = Refused, wire.CodeUnknownDelivery
		}, []string{PropertyAtLeastOnce}},
		{"settled twice", func(h *History) {
			h.Settles = append(h.Settles, ack(2, 104, 1, 80, 81))
		}, []string{PropertySettledStays}},
		{"delivered after its ACK", func(h *History) {
			d := msg(2, 104, 1, 5, 80)
			d.Attempt = 2
			h.Deliveries = append(h.Deliveries, d)
		}, []string{PropertySettledStays}},
		{"delivered while it was given back and acknowledged", func(h *History) {
			d := msg(2, 104, 1, 5, 70)
			d.Attempt = 2
			h.Deliveries = append(h.Deliveries, d)
			release := ack(2, 102, 1, 60, 70)
			release.Kind = Release
			h.Settles = append(h.Settles, release)
		}, nil},
		{"dead letter twice", func(h *History) {
			r := Record{Payload: 3, DeadLetter: true, Source: Source{part, 3, "g"}}
			h.Logs[1].Records = []Record{r, r}
			h.Settles = h.Settles[:2]
			h.Books[1].Delivered, h.Books[1].Dropped, h.Books[1].DLQ = 2, 1, 1
		}, []string{PropertyDeadLetter}},
		{"dead letter of an acknowledged message", func(h *History) {
			h.Logs[1].Records = []Record{{Payload: 3, DeadLetter: true, Source: Source{part, 3, "g"}}}
		}, []string{PropertyDeadLetter}},
		{"a release that cost an attempt", func(h *History) {
			h.MaxAttempts = 2
			h.Logs[1].Records = []Record{{Payload: 3, DeadLetter: true, Source: Source{part, 3, "g"}, Attempts: 2}}
			h.Settles[2].Kind = Release
			h.Books[1].Delivered, h.Books[1].Dropped, h.Books[1].DLQ = 2, 1, 1
		}, []string{PropertyCharges}},
		{"accounting", func(h *History) { h.Books[0].Unsettled = 2 }, []string{PropertyBooks}},
		{"ack floor ahead", func(h *History) { h.Books[0].Floor = 1 }, []string{PropertyBooks}},
		{"books fall", func(h *History) {
			b := h.Books[1]
			b.At, b.Delivered, b.Unsettled, b.Floor, b.NextFirst = 90, 2, 1, 2, 3
			h.Books = []Book{h.Books[0], h.Books[1], b, h.Books[1]}
			h.Books[1].At = 80
		}, []string{PropertyBooksFall}},
		{"stale owner settles", func(h *History) {
			d := msg(1, 104, 2, 6, 55)
			d.Attempt = 2
			h.Deliveries = append(h.Deliveries, d)
			h.Settles[0].DeliveryID = 104
		}, []string{PropertyOwnership}},
		{"delivery id given twice", func(h *History) { h.Deliveries[1].DeliveryID = 101 }, []string{PropertyDeliveryIDs}},
		{"two owners in one epoch", func(h *History) { h.Deliveries[2].Member = 6 }, []string{PropertyOwnership}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := sound()
			c.plant(h)
			expect(t, h, c.want...)
		})
	}
}

// broken is a sound history of a group that was reset to its first message in
// the middle: everything was handed out and acknowledged twice.
func broken(fresh bool) *History {
	h := sound()
	for s := uint64(1); s <= 3; s++ {
		h.Deliveries = append(h.Deliveries, msg(s, 200+s, 4, 6, 150+Time(s)))
		h.Settles = append(h.Settles, ack(s, 200+s, 4, 160+Time(s), 170))
	}
	h.Breaks = []Break{{Group: "g", Partition: part, Ownership: 4, From: 110, To: 120, Fresh: fresh, Next: 1}}
	last := Book{At: 199, Group: "g", Partition: part, LastSeq: 3, Floor: 3, NextFirst: 4, Start: -3, Delivered: 6, Ownership: 4}
	if fresh {
		last.Start, last.Delivered = 0, 3
	}
	h.Books = append(h.Books, Book{At: 130, Group: "g", Partition: part, LastSeq: 3, NextFirst: 1, Start: last.Start, Delivered: last.Delivered - 3, Unsettled: 3, Ownership: 4}, last)
	return h
}

// Goal: a group that was reset or deleted is handed everything once more and may
// settle it once more; that and no more, and never without a break.
func TestBreaks(t *testing.T) {
	for _, fresh := range []bool{false, true} {
		expect(t, broken(fresh))
		for _, c := range []struct {
			name  string
			plant func(*History)
			want  []string
		}{
			{"no break", func(h *History) { h.Breaks = nil }, nil},
			{"settled twice behind it", func(h *History) {
				h.Settles = append(h.Settles, ack(1, 301, 4, 180, 190))
			}, []string{PropertySettledStays}},
			{"handed out again behind it", func(h *History) {
				again := msg(2, 302, 4, 6, 180)
				again.Attempt = 2
				h.Deliveries = append(h.Deliveries, again)
			}, []string{PropertySettledStays}},
			{"unseen behind it", func(h *History) {
				h.Deliveries = h.Deliveries[:5]
				h.Settles[5].Outcome = Unknown
			}, []string{PropertyUnseen}},
			{"counted without an ACK", func(h *History) {
				h.Settles[5].Outcome, h.Settles[5].Code = Refused, wire.CodeUnknownDelivery
			}, []string{PropertyAtLeastOnce}},
			{"an owner from before", func(h *History) {
				h.Settles = append(h.Settles, ack(2, 102, 1, 185, 190))
			}, []string{PropertySettledStays, PropertyOwnership}},
			{"an epoch that falls", func(h *History) { h.Books[3].Ownership = 2 }, []string{PropertyBooksFall}},
		} {
			t.Run(c.name, func(t *testing.T) {
				h := broken(fresh)
				c.plant(h)
				if c.want != nil {
					expect(t, h, c.want...)
				} else if v := Check(h, Options{}); len(v.Findings) == 0 {
					t.Fatal("nothing was found")
				}
			})
		}
	}
}

// Goal: a group that was deleted and not made again is owed nothing; one that was
// made again is.
func TestGone(t *testing.T) {
	h := sound()
	h.Deliveries, h.Settles = h.Deliveries[:2], h.Settles[:2]
	h.Books[1].Delivered, h.Books[1].Unsettled, h.Books[1].Floor, h.Books[1].NextFirst = 2, 1, 2, 3
	h.Breaks = []Break{{Group: "g", Partition: part, Ownership: 2, From: 100, To: 110, Fresh: true}}
	expect(t, h)
	h.Books = append(h.Books, Book{At: 120, Group: "g", Partition: part, LastSeq: 3, NextFirst: 1, Unsettled: 3, Ownership: 2})
	expect(t, h, PropertyUnseen, PropertyAtLeastOnce)
}

// redrivenHistory is one of three messages of which two are dead letters, of
// which both came back, by two walks of which the first got no answer.
func redrivenHistory() *History {
	twin := Partition{Topic: 2}
	dead := func(s uint64) Record {
		return Record{Payload: s, DeadLetter: true, Rejected: true, Source: Source{Partition: part, Sequence: s, Group: "g"}}
	}
	return &History{
		Publishes: []Publish{published(1, 1, 10, 20), published(2, 2, 15, 30), published(3, 3, 31, 40)},
		Logs:      []Log{logOf(1, 2, 3, 1, 3), {Partition: twin, Twin: true, Records: []Record{dead(1), dead(3)}}},
		Redrives: []Redrive{
			{Topic: 2, Call: 50, Return: Forever, Redriven: 1},
			{Topic: 2, Call: 60, Return: 70, Done: true, Until: []uint64{2}, Redriven: 1},
		},
	}
}

// Goal: a dead letter comes back exactly once; twice, never, without anybody
// asking, or unlike what was answered is found.
func TestRedriven(t *testing.T) {
	expect(t, redrivenHistory())
	for _, c := range []struct {
		name  string
		plant func(*History)
		want  []string
	}{
		{"twice", func(h *History) { h.Logs[0] = logOf(1, 2, 3, 1, 3, 1) }, []string{PropertyRedrive}},
		{"one that is not dead", func(h *History) { h.Logs[0] = logOf(1, 2, 3, 1, 3, 2) }, []string{PropertyRedrive}},
		{"never", func(h *History) { h.Logs[0] = logOf(1, 2, 3, 1) }, []string{PropertyRedrive}},
		{"purged first", func(h *History) {
			h.Logs[0] = logOf(1, 2, 3, 1)
			h.Purges, h.Redrives[1].Redriven = []Purge{{Topic: 2, Call: 55, Return: 56}}, 0
		}, nil},
		{"told of less", func(h *History) { h.Redrives[0].Done, h.Redrives[0].Redriven = true, 0 }, []string{PropertyRedrive}},
		{"told of more", func(h *History) { h.Redrives[1].Redriven = 3 }, []string{PropertyRedrive}},
		{"nobody asked", func(h *History) { h.Redrives = nil }, []string{PropertyDuplicate}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := redrivenHistory()
			c.plant(h)
			expect(t, h, c.want...)
		})
	}
}

// Goal: a reset to a time that goes on too early or too late is found, and one that
// met what was published meanwhile is not.
func TestResetToTime(t *testing.T) {
	for _, c := range []struct {
		name              string
		since, next, last uint64
		want              []string
	}{
		{"the first of its time", 20, 2, 3, nil},
		{"between two", 15, 2, 3, nil},
		{"behind all", 31, 4, 3, nil},
		{"before all", 1, 1, 3, nil},
		{"one late", 20, 3, 3, []string{PropertyResetToTime}},
		{"behind all, late", 30, 4, 3, []string{PropertyResetToTime}},
		{"one early", 20, 1, 3, []string{PropertyResetToTime}},
		{"published meanwhile", 35, 3, 2, nil},
		{"not known", 20, 0, 3, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := sound()
			for i := range h.Logs[0].Records {
				h.Logs[0].Records[i].Timestamp = uint64(10 * (i + 1))
			}
			// Of a group that nothing else is known of.
			h.Breaks = []Break{{Group: "another", Partition: part, Ownership: 1, From: 100, To: 110, Since: c.since, Next: c.next, Last: c.last}}
			expect(t, h, c.want...)
		})
	}
}
