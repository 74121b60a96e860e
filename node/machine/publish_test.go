package machine

import (
	"testing"

	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/wire"
)

func pub(t op.TopicID, p op.PartitionID, pid, seq uint64) op.Op {
	return op.Op{Kind: op.KindPublish, Topic: t, Partition: p, ProducerID: pid, ProducerSeq: seq}
}

// Goal: the window remembers the last 1024 sequences, with record and epoch, over
// interleaved producers and epochs; what is beyond either end is refused.
func TestDedupWindow(t *testing.T) {
	l := newLog(t, op.Settings{})
	id := l.topic("t", 1)
	l.refused(wire.CodeSeqExpired, pub(id, 0, 1, 2))
	l.refused(wire.CodeProducerSeqInvalid, pub(id, 0, 0, 1))
	l.refused(wire.CodeProducerSeqInvalid, pub(id, 0, 1, 0))
	l.refused(wire.CodeUnknownPartition, pub(id, 1, 1, 1))
	l.refused(wire.CodeInvalidTopic, pub(id+1, 0, 1, 1))
	l.refused(wire.CodeUnknownTopic, pub(9, 0, 1, 1))
	const n = 1500
	first := map[uint64]Result{}
	for seq := uint64(1); seq <= n; seq++ {
		if seq%500 == 0 {
			l.h.Epoch++
			l.must(op.Op{Kind: op.KindEpochStart})
		}
		first[seq] = l.must(pub(id, 0, 1, seq))
		if seq%3 == 0 {
			l.publish(id, 0, 1)
		}
	}
	l.refused(wire.CodeSeqGap, pub(id, 0, 1, n+2))
	for seq := uint64(1); seq <= n; seq++ {
		if d := l.v.Dedup(id, 0, 1, seq); seq <= n-1024 {
			if d.Verdict != VerdictExpired {
				t.Fatalf("%d: %+v", seq, d)
			}
			l.refused(wire.CodeSeqExpired, pub(id, 0, 1, seq))
			continue
		} else if d.Verdict != VerdictDuplicate || d.Sequence != first[seq].Sequence || d.Epoch != first[seq].LeaderEpoch {
			t.Fatalf("%d: %+v, want %+v", seq, d, first[seq])
		}
		r := l.must(pub(id, 0, 1, seq))
		if !r.Deduplicated || r.Append.Present || r.Sequence != first[seq].Sequence || r.LeaderEpoch != first[seq].LeaderEpoch || r.CommitSeq != l.v.LastSeq(id, 0) {
			t.Fatalf("%d: %+v, want %+v", seq, r, first[seq])
		}
	}
	if d := l.v.Dedup(id, 0, 1, n+1); d.Verdict != VerdictNew {
		t.Fatalf("%+v", d)
	}
}

// Goal: timestamps never fall, and kind and counters of a record are right.
func TestRecord(t *testing.T) {
	l := newLog(t, op.Settings{})
	id := l.topic("t", 1)
	o := op.Op{Kind: op.KindPublish, Topic: id, Timestamp: 1000, Key: []byte("k"), Value: []byte("value")}
	if a := l.must(o).Append; a.Timestamp != 1000 || a.Kind != RecordLocal || a.Sequence != 1 {
		t.Fatalf("%+v", a)
	}
	o.Timestamp, o.Flags = 900, op.FlagQuorum
	if a := l.must(o).Append; a.Timestamp != 1000 || a.Kind != RecordQuorum || a.Sequence != 2 {
		t.Fatalf("%+v", a)
	}
	if p, _ := l.v.Partition(id, 0); p.Bytes != 12 || p.Plain != 2 || p.LastSeq != 2 {
		t.Fatalf("%+v", p)
	}
}

// Goal: windows share a budget; the longest idle producer may be forgotten after
// ten minutes, a new one is refused until then, a known one goes on.
func TestWindowBudget(t *testing.T) {
	l := newLog(t, op.Settings{ProducerWindowBytes: 3 * windowCost})
	id := l.topic("t", 1)
	for pid := uint64(1); pid <= 3; pid++ {
		l.h.LogTime += 1000
		l.must(pub(id, 0, pid, 1))
	}
	l.refused(wire.CodeQuotaExceeded, pub(id, 0, 4, 1))
	l.h.LogTime += ForgetIdleMillis - 2000
	l.must(pub(id, 0, 1, 2))
	forget := func(pid uint64) op.Op {
		return op.Op{Kind: op.KindForgetProducer, Topic: id, ProducerID: pid}
	}
	if _, _, _, ok := l.v.ForgetCandidate(l.h.LogTime); ok {
		t.Fatal("nobody has been idle long enough")
	}
	l.refused(wire.CodeSeqExpired, forget(2))
	l.h.LogTime += 1000
	l.refused(wire.CodeSeqExpired, forget(1))
	if tid, p, pid, ok := l.v.ForgetCandidate(l.h.LogTime); !ok || tid != id || p != 0 || pid != 2 {
		t.Fatal(tid, p, pid, ok)
	}
	l.must(forget(2))
	l.refused(wire.CodeSeqExpired, pub(id, 0, 2, 2))
	l.refused(wire.CodeSeqExpired, forget(3))
	l.h.LogTime += 1000
	l.must(forget(3))
	l.must(pub(id, 0, 4, 1))
	if l.v.Producers() != 2 {
		t.Fatal(l.v.Producers())
	}
	// Runs of known producers may go up to twice the budget.
	seq := map[uint64]uint64{1: 2, 4: 1}
	for {
		for pid := range uint64(5) {
			if seq[pid] == 0 {
				continue
			}
			if r := l.do(pub(id, 0, pid, seq[pid]+1)); r.Code == wire.CodeQuotaExceeded {
				if l.v.WindowBytes()+runCost <= 6*windowCost {
					t.Fatalf("refused at %d bytes", l.v.WindowBytes())
				}
				return
			}
			seq[pid]++
		}
	}
}
