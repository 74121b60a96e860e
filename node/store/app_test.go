package store

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/node/store/segment"
)

const appPartitions = 3

// app is a state machine that is just enough to fill every file of a store:
// each entry appends a record, every fourth a metadata op, and a state that is a
// function of the log goes into the checkpoints.
type app struct {
	w       *world
	applied op.Number
	epoch   op.Epoch
	hash    op.Hash
	logTime op.LogMillis
	parts   [appPartitions]op.Sequence
	meta    []string
	created bool

	pieces []string // of the checkpoint under way, to be given
	kinds  []PieceKind
}

// state is what the pieces of a checkpoint say.
func (a *app) state() string {
	return fmt.Sprintf("%d %x %v", a.applied, a.hash, a.parts)
}

// record is what entry n appends to its partition.
func appRecord(n op.Number, seq op.Sequence, body []byte) format.Record {
	return format.Record{Sequence: seq, Timestamp: uint64(n), ProducerID: uint64(n), Value: body[:min(len(body), 3000)]}
}

// apply applies the next entry.
func (a *app) apply(number op.Number, epoch op.Epoch, logTime op.LogMillis, hash op.Hash, body []byte) {
	if number != a.applied+1 {
		a.w.t.Fatalf("entry %d applied after %d", number, a.applied)
	}
	if !a.created {
		for p := range appPartitions {
			a.w.s.CreatePartition(1, op.PartitionID(p))
		}
		a.created = true
	}
	a.applied, a.epoch, a.hash, a.logTime = number, epoch, hash, logTime
	p := int(number % appPartitions)
	a.parts[p]++
	r := appRecord(number, a.parts[p], body)
	a.w.s.AppendRecord(1, op.PartitionID(p), &r)
	if number%4 == 0 {
		m := fmt.Sprintf("m%d", number)
		a.meta = append(a.meta, m)
		a.w.s.AppendMetadata(op.Header{Number: number, Epoch: epoch, LogTime: logTime}, []byte(m))
	}
}

// see takes in the events of recovery.
func (a *app) see(ev *Event) {
	switch ev.Kind {
	case EventMetadataSnapshot:
		a.meta = strings.Fields(string(ev.Data))
	case EventMetadataOp:
		a.meta = append(a.meta, string(ev.Data))
	case EventCheckpointLoaded:
		if ev.Number == 0 {
			return
		}
		var log, cursor string
		for _, b := range a.w.logs {
			log += string(b)
		}
		for _, b := range a.w.cursors {
			cursor += string(b)
		}
		if log != cursor {
			a.w.t.Fatalf("log checkpoint %q, cursor checkpoint %q", log, cursor)
		}
		var hash []byte
		var parts [appPartitions]op.Sequence
		if _, err := fmt.Sscanf(log, "%d %x [%d %d %d]", &a.applied, &hash, &parts[0], &parts[1], &parts[2]); err != nil {
			a.w.t.Fatalf("checkpoint %q: %v", log, err)
		}
		a.parts, a.created = parts, true
		copy(a.hash[:], hash)
		a.epoch, a.logTime = ev.Epoch, ev.LogTime
		if a.applied != ev.Number || a.hash != ev.Hash {
			a.w.t.Fatalf("checkpoint %q loaded as %d %x", log, ev.Number, ev.Hash)
		}
	case EventEntry:
		e := &ev.Entry
		a.apply(e.Header.Number, e.Header.Epoch, e.Header.LogTime, e.Hash(), e.Body)
	case EventRecovered:
		a.checkMeta()
		for p := range a.parts {
			if got := a.w.s.LastSequence(1, op.PartitionID(p)); got != a.parts[p] {
				a.w.t.Fatalf("partition %d ends at %d, not %d", p, got, a.parts[p])
			}
		}
	}
}

// checkMeta checks that the metadata is what the applied entries left.
func (a *app) checkMeta() {
	if len(a.meta) != int(a.applied/4) {
		a.w.t.Fatalf("%d metadata ops after entry %d: %v", len(a.meta), a.applied, a.meta)
	}
	for i, m := range a.meta {
		if m != fmt.Sprintf("m%d", 4*(i+1)) {
			a.w.t.Fatalf("metadata op %d is %s", i, m)
		}
	}
}

// work does what a node does at the end of a turn: snapshots and checkpoints.
func (a *app) work(begin bool, split int) {
	s := a.w.s
	if s.SnapshotDue() {
		s.WriteSnapshot(a.epoch, []byte(strings.Join(a.meta, " ")))
	}
	if len(a.pieces) > 0 {
		if s.CheckpointRoom() > len(a.pieces[0]) {
			s.CheckpointPiece(a.kinds[0], []byte(a.pieces[0]))
			if a.pieces, a.kinds = a.pieces[1:], a.kinds[1:]; len(a.pieces) == 0 {
				s.FinishCheckpoint()
			}
		}
		return
	}
	if (begin || s.CheckpointDue()) && !s.Checkpointing() && a.applied > s.CheckpointOp() {
		s.BeginCheckpoint(a.applied, a.epoch, a.hash, a.logTime)
		state := a.state()
		split = min(split, len(state))
		a.pieces = []string{state[:split], state, state[split:]}
		a.kinds = []PieceKind{PieceLog, PieceCursor, PieceLog}
	}
}

// readAll reads every record back and compares it with what was appended.
func (a *app) readAll(entries []seen) {
	w := a.w
	var seqs [appPartitions]op.Sequence
	for _, e := range entries[:a.applied] {
		p := int(e.number % appPartitions)
		seqs[p]++
		want := appRecord(e.number, seqs[p], e.body)
		for tries := 0; ; tries++ {
			got, status := w.s.Read(1, op.PartitionID(p), seqs[p])
			if status == segment.Pending && tries < 1000 {
				w.turn()
				w.step()
				continue
			}
			if status != segment.Hit || got.Sequence != want.Sequence || got.ProducerID != want.ProducerID || !bytes.Equal(got.Value, want.Value) {
				w.t.Fatalf("partition %d, sequence %d: status %d, got record of entry %d", p, seqs[p], status, got.ProducerID)
			}
			break
		}
	}
	w.turn()
}
