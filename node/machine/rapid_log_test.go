package machine

import (
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/wire"
	"pgregory.net/rapid"
)

func (w *world) Create(*rapid.T) {
	name := w.topicName()
	if w.pick("twin", 4) == 0 {
		name += ".dlq"
	}
	o := op.Op{Kind: op.KindTopicCreate, Name: []byte(name), Partitions: rapid.SampledFrom([]uint16{0, 1, 2, 3, 1025}).Draw(w.T, "n")}
	res := w.apply(o)
	code, t, existing := w.md.create(&o)
	if !w.want(o, res, code) {
		return
	}
	id, created := t.id, uint8(0)
	if existing > 0 {
		created = 1
		id += op.TopicID(existing - 1)
	}
	if res.TopicID != id || res.Partitions != t.n || res.Created != created {
		w.Fatalf("%+v, want topic %d", res, id)
	}
}

func (w *world) Delete(*rapid.T) {
	if w.pick("sure", 12) != 0 {
		w.Skip("not now")
	}
	name := w.topicName()
	o := op.Op{Kind: op.KindTopicDelete, Name: []byte(name)}
	res := w.apply(o)
	w.want(o, res, wire.CodeOK)
	if found := w.md.deleteTopic(name); found != (res.Created == CreatedDeleted) || !found && res.Created != CreatedNotFound {
		w.Fatalf("%+v, found %v", res, found)
	}
}

func (w *world) Publish(*rapid.T) {
	o := op.Op{Kind: op.KindPublish, Topic: w.anyTopic(), Timestamp: uint64(w.pick("ts", 100))}
	if t, _ := w.md.topic(o.Topic); t != nil {
		o.Partition = op.PartitionID(w.pick("part", int(t.n)))
	}
	burst := 1
	switch w.pick("how", 4) {
	case 0:
		o.ProducerID, o.ProducerSeq = uint64(w.pick("pid", 2)), uint64(w.pick("pseq", 4))
		if w.pick("plain", 2) == 0 {
			o.ProducerID, o.ProducerSeq = 0, 0
		}
	case 1:
		burst = rapid.SampledFrom([]int{1, 2, 5, 700}).Draw(w.T, "burst")
		fallthrough
	default:
		o.ProducerID = uint64(1 + w.pick("pid", 3))
		if t, twin := w.md.topic(o.Topic); t != nil && twin == 0 && uint16(o.Partition) < t.n {
			if pr := t.parts[0][o.Partition].producers[o.ProducerID]; pr != nil {
				o.ProducerSeq = uint64(len(pr.accepted))
			}
		}
		back := rapid.SampledFrom([]int{0, 0, 0, 0, -1, 1, 2, 1023, 1024, 1025}).Draw(w.T, "back")
		o.ProducerSeq = uint64(max(1, int(o.ProducerSeq)+1-back))
	}
	for range burst {
		w.publish(o)
		o.ProducerSeq++
	}
}

func (w *world) publish(o op.Op) {
	verdict := w.v.Dedup(o.Topic, o.Partition, o.ProducerID, max(o.ProducerSeq, 1))
	res := w.apply(o)
	code, dup := w.md.publish(&o)
	if o.ProducerID > 0 && o.ProducerSeq > 0 {
		ok := true
		switch code {
		case wire.CodeSeqGap:
			ok = verdict.Verdict == VerdictGap
		case wire.CodeSeqExpired:
			ok = verdict.Verdict == VerdictExpired || verdict.Verdict == VerdictUnknown
		case wire.CodeOK:
			ok = verdict == DedupView{}
			if dup != nil {
				ok = verdict == DedupView{VerdictDuplicate, dup.seq, dup.epoch}
			}
		}
		if !ok {
			w.Fatalf("%+v: %+v, and then %v", o, verdict, code)
		}
	}
	if !w.want(o, res, code) {
		return
	}
	p := w.md.part(o.Topic, o.Partition)
	last := op.Sequence(len(p.stamps))
	want := Result{Sequence: last, LeaderEpoch: w.h.Epoch, CommitSeq: last}
	if dup != nil {
		want.Sequence, want.LeaderEpoch, want.Deduplicated = dup.seq, dup.epoch, true
	} else {
		want.Append = Append{Present: true, Topic: o.Topic, Partition: o.Partition, Sequence: last, Timestamp: p.stamps[last-1],
			LeaderEpoch: w.h.Epoch, ProducerID: o.ProducerID, ProducerSeq: o.ProducerSeq}
	}
	if res != want {
		w.Fatalf("got %+v, want %+v", res, want)
	}
}

func (w *world) Forget(*rapid.T) {
	w.h.LogTime += 300_000
	o := op.Op{Kind: op.KindForgetProducer, Topic: 1, Partition: op.PartitionID(w.pick("part", 2)), ProducerID: uint64(1 + w.pick("pid", 3))}
	if t, p, id, ok := w.v.ForgetCandidate(w.h.LogTime); ok {
		o.Topic, o.Partition, o.ProducerID = t, p, id
		idle := w.md.part(t, p).producers[id]
		for _, t := range w.md.topics {
			for p := range partsOf(t) {
				for _, pr := range t.parts[0][p].producers {
					if pr.order < idle.order {
						w.Fatalf("%d is not the longest idle", id)
					}
				}
			}
		}
	}
	res := w.apply(o)
	t, _ := w.md.topic(o.Topic)
	if t == nil || uint16(o.Partition) >= t.n {
		w.want(o, res, wire.CodeSeqExpired)
		return
	}
	p := t.parts[0][o.Partition]
	if pr := p.producers[o.ProducerID]; pr == nil || w.h.LogTime-pr.active < 600_000 {
		w.want(o, res, wire.CodeSeqExpired)
		return
	}
	w.want(o, res, wire.CodeOK)
	delete(p.producers, o.ProducerID)
}

func partsOf(t *mTopic) []*mPart {
	if t == nil {
		return nil
	}
	return t.parts[0]
}

func (w *world) Redrive(*rapid.T) {
	o := op.Op{Kind: op.KindRedrive, Topic: w.anyTwin(), Partition: op.PartitionID(w.pick("part", 6) / 5),
		Sequence: op.Sequence(w.pick("seq", 4)), Flags: op.FlagQuorum, ProducerID: 7, ProducerSeq: 9}
	t, p, code := w.deadLetters(&o)
	done := false
	if code == wire.CodeOK {
		done = p.redriven[o.Sequence]
		if o.Sequence == 0 || int(o.Sequence) > len(p.stamps) || o.Sequence <= p.purged && !done {
			code = wire.CodeUnknownDelivery
		}
	}
	res := w.apply(o)
	if !w.want(o, res, code) {
		return
	}
	if res.Deduplicated != done || res.Append.Present == done {
		w.Fatalf("%+v, redriven before: %v", res, done)
	}
	if !done {
		p.redriven[o.Sequence] = true
		w.appended(res, t.parts[0][o.Partition], &o, t.id, RecordQuorum)
	}
}

// anyTwin is mostly one that has dead letters.
func (w *world) anyTwin() op.TopicID {
	for _, t := range w.md.topics {
		if t != nil && len(t.parts[1][0].stamps) > 0 && w.pick("this", 8) > 0 {
			return t.id + 1
		}
	}
	return w.anyTopic()
}

func (w *world) deadLetters(o *op.Op) (*mTopic, *mPart, wire.Code) {
	t, twin := w.md.topic(o.Topic)
	switch {
	case t == nil:
		return nil, nil, wire.CodeUnknownTopic
	case twin == 0:
		return nil, nil, wire.CodeInvalidTopic
	case uint16(o.Partition) >= t.n:
		return nil, nil, wire.CodeUnknownPartition
	}
	return t, t.parts[1][o.Partition], wire.CodeOK
}

func (w *world) Purge(*rapid.T) {
	o := op.Op{Kind: op.KindPurge, Topic: w.anyTwin(), Partition: op.PartitionID(w.pick("part", 6) / 5), Sequence: op.Sequence(w.pick("seq", 4))}
	_, p, code := w.deadLetters(&o)
	res := w.apply(o)
	if !w.want(o, res, code) {
		return
	}
	n := uint64(0)
	for s := p.purged + 1; s <= o.Sequence && int(s) <= len(p.stamps); s++ {
		if !p.redriven[s] {
			n++
		}
		p.purged = s
	}
	if res.Count != n {
		w.Fatalf("%+v, want %d purged", res, n)
	}
}
