package sim

import (
	"errors"
	"fmt"
	"io"

	"github.com/mortarmq/mortarmq/checker"
	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/node"
	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/format/verify"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/sim/simdisk"
	"github.com/mortarmq/mortarmq/wire"
)

func partitionID(p uint16) op.PartitionID { return op.PartitionID(p) }

// stopNode asks the node to stop, as an operator would.
func (w *world) stopNode() bool {
	w.host.stopping = true
	w.host.stop(0)
	ok := w.runUntil(w.now.Add(stopMax), func() bool { return w.host.node == nil })
	if !ok && !w.stopped {
		w.finding(PropertyLiveness, "the node was asked to stop and did not")
	}
	return ok
}

// readLogs starts the node once more and reads every log through its admin side.
func (w *world) readLogs() bool {
	w.host.stopping = false
	w.host.start()
	if !w.runUntil(w.now.Add(readMax), w.host.serving) {
		if !w.stopped {
			w.stuck("the node does not serve after it was stopped and started")
		}
		return false
	}
	for i := range w.plan.Topics {
		for twin := range uint16(2) {
			if !w.readTopic(i, twin) {
				return false
			}
		}
	}
	return true
}

// readTopic reads the partitions of a topic, or of its twin.
func (w *world) readTopic(i int, twin uint16) bool {
	t := w.plan.Topics[i]
	name, id := t.Name, w.admin.topicID(i)+twin
	if twin == 1 {
		name += ".dlq"
	}
	first := len(w.rec.h.Logs)
	v := w.host.node.Machine().View()
	from := make([]uint64, t.Partitions)
	left := uint64(0)
	for p := range uint16(t.Partitions) {
		w.rec.h.Logs = append(w.rec.h.Logs, checker.Log{Partition: checker.Partition{Topic: id, Partition: p}, Twin: twin == 1})
		from[p] = 1
		left += uint64(v.LastSeq(op.TopicID(id), partitionID(p)))
	}
	for left > 0 {
		done, code := false, wire.CodeOK
		w.host.onAnswer = func(a *node.Answer) {
			done = true
			if code = a.Code; code != wire.CodeOK {
				return
			}
			for j := range a.Records {
				w.keepRecord(&w.rec.h.Logs[first+int(a.Partitions[j])], &a.Records[j])
			}
			left -= min(left, uint64(len(a.Records)))
			copy(from, a.Next)
		}
		w.host.ask(node.Query{Kind: node.QueryTail, Topic: name, From: from, Max: 1000})
		if !w.runUntil(w.now.Add(readMax), func() bool { return done }) || w.stopped {
			if !w.stopped {
				w.stuck(name + " cannot be read to its end")
			}
			return false
		}
		if code != wire.CodeOK {
			w.stuck(fmt.Sprintf("%s cannot be read: %v", name, code))
			return false
		}
	}
	return true
}

// keepRecord takes a record into the final log.
func (w *world) keepRecord(l *checker.Log, r *format.Record) {
	if uint64(r.Sequence) != uint64(len(l.Records))+1 {
		w.finding(PropertyOffline, "%v: sequence %d follows %d", l.Partition, r.Sequence, len(l.Records))
		return
	}
	if n := len(l.Records); n > 0 && r.Timestamp < l.Records[n-1].Timestamp {
		w.finding(PropertyOffline, "%v: the timestamp of sequence %d falls from %d to %d", l.Partition, r.Sequence, l.Records[n-1].Timestamp, r.Timestamp)
		return
	}
	rec := checker.Record{ProducerID: r.ProducerID, ProducerSeq: r.ProducerSeq, Payload: identity(r.Key, r.Value), Timestamp: r.Timestamp}
	if r.Kind == format.RecordDeadLetter {
		e, err := format.DecodeEnvelope(r.Envelope)
		if err != nil {
			w.finding(PropertyOffline, "%v: the envelope of sequence %d does not decode: %v", l.Partition, r.Sequence, err)
			return
		}
		w.marks.Mark("sim.dead_letter")
		rec.DeadLetter, rec.Attempts, rec.Rejected = true, e.Attempts, e.Reason == op.CauseReject
		rec.Source = checker.Source{Partition: checker.Partition{Topic: uint16(e.Topic), Partition: uint16(e.Partition)}, Sequence: uint64(e.Sequence), Group: string(e.GroupName)}
	}
	l.Records = append(l.Records, rec)
}

// resolve finds the partitions of publishes whose outcome nobody knows, and
// marks the history as drained.
func (w *world) resolve() {
	type key struct {
		topic   uint16
		payload uint64
	}
	where := map[key]uint16{}
	for i := range w.rec.h.Logs {
		l := &w.rec.h.Logs[i]
		for j := range l.Records {
			where[key{l.Partition.Topic, l.Records[j].Payload}] = l.Partition.Partition
		}
	}
	for i := range w.rec.h.Publishes {
		p := &w.rec.h.Publishes[i]
		if p.Outcome == checker.Unknown {
			if part, ok := where[key{p.Partition.Topic, p.Payload}]; ok {
				p.Partition.Partition = part
			}
		}
	}
	w.rec.h.Drained = true
	w.rec.h.MaxAttempts = uint32(w.plan.Knob("attempts"))
}

// verifyOffline looks at the stopped node's directory as an operator's tool does.
func (w *world) verifyOffline() {
	report := verify.Verify(offline{w.host.disk}, verify.Options{JournalFileBytes: w.plan.Knob("journal_file")})
	for i := range report.Findings {
		f := &report.Findings[i]
		if f.Level == verify.Damage && w.atlas.beyondWhat == "" {
			w.finding(PropertyOffline, "the stopped node's directory does not verify: %s", f.String())
			return
		}
	}
}

// offline gives a disk to package verify.
type offline struct{ d *simdisk.Disk }

// List implements verify.FS.
func (o offline) List(dir string) ([]verify.Entry, error) {
	entries, err := o.d.Offline().ReadDir(dir)
	if errors.Is(err, disk.ErrNotExist) {
		return nil, nil
	}
	list := make([]verify.Entry, len(entries))
	for i, e := range entries {
		list[i] = verify.Entry{Name: e.Name, Size: e.Size, Dir: e.Dir}
	}
	return list, err
}

// Open implements verify.FS.
func (o offline) Open(path string) (verify.File, error) {
	size := o.d.Size(path)
	if size < 0 {
		return nil, disk.ErrNotExist
	}
	return offlineFile{o.d, path, size}, nil
}

type offlineFile struct {
	d    *simdisk.Disk
	path string
	size int64
}

func (f offlineFile) Size() int64  { return f.size }
func (f offlineFile) Close() error { return nil }

// ReadAt implements io.ReaderAt.
func (f offlineFile) ReadAt(b []byte, offset int64) (int, error) {
	n, err := f.d.Offline().ReadAt(f.path, offset, b)
	if err == nil && n < len(b) {
		err = io.EOF
	}
	return n, err
}
