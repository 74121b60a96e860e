package store

import (
	"strings"
	"testing"

	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/node/store/segment"
	"github.com/mortarmq/mortarmq/sim/simdisk"
)

// Goal: a dropped topic's files go only after a checkpoint that does not name
// it, also when it was dropped while one was being written.
func TestDropTopic(t *testing.T) {
	w := newWorld(t, 13)
	m := &model{}
	m.start(w)
	w.recover()
	w.install(1)
	w.append2(m, 10)
	has := func(topic string) bool {
		for _, path := range w.disk.Files() {
			if strings.HasPrefix(path, "topics/"+topic+"/") {
				return true
			}
		}
		return false
	}
	checkpoint := func(meanwhile func()) {
		t.Helper()
		w.append2(m, 10)
		w.until("an idle store", func() bool { return !w.s.Checkpointing() })
		a := m.app
		w.s.BeginCheckpoint(a.applied, a.epoch, a.hash, a.logTime)
		meanwhile()
		for _, kind := range []PieceKind{PieceLog, PieceCursor} {
			w.s.CheckpointPiece(kind, []byte(a.state()))
		}
		w.s.FinishCheckpoint()
		w.turn()
		w.until("the checkpoint's end", func() bool { return !w.s.Checkpointing() })
	}
	for _, topic := range []op.TopicID{5, 7} {
		w.s.CreatePartition(topic, 0)
		r := format.Record{Sequence: 1, Value: []byte("gone soon")}
		w.s.AppendRecord(topic, 0, &r)
	}
	checkpoint(func() {})
	if !has("5") || !has("7") {
		t.Fatal("no files of the topics")
	}
	w.s.DropTopic(5)
	checkpoint(func() { w.s.DropTopic(7) })
	if !has("7") {
		t.Fatal("topic 7 is unlinked, and the checkpoint names it")
	}
	w.crash(simdisk.PowerLoss)
	m.start(w)
	w.recover()
	if has("5") || !has("7") {
		t.Fatal("recovery kept what no checkpoint names, or the other way round")
	}
	if _, status := w.s.Read(7, 0, 1); status != segment.Pending && status != segment.Hit {
		t.Fatal("topic 7 cannot be read", status)
	}
	w.turn()
	w.s.DropTopic(7)
	checkpoint(func() {})
	if has("7") {
		t.Fatal("topic 7 is still there")
	}
}
