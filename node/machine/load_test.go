package machine

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/mortarmq/mortarmq/node/op"
)

// sample is a machine with something of everything, and its checkpoint.
func sample(t testing.TB) (m *Machine, metadata, log, cursor []byte) {
	l := newLog(t, op.Settings{})
	id := l.topic("t", 2)
	l.topic("gone", 1)
	l.must(op.Op{Kind: op.KindTopicDelete, Name: []byte("gone")})
	for seq := uint64(1); seq <= 9; seq++ {
		l.must(pub(id, 0, 1, seq))
		l.must(pub(id, 0, 2, seq))
	}
	g, _ := l.join("g", id)
	l.join("g", id)
	d, own := l.deliver(g, 0, 1, 8)
	for i := range op.Sequence(3) {
		o := op.Op{Kind: op.KindDeadLetter, Topic: id, Cause: op.CauseReject, Group: g, Sequence: 2*i + 1, Delivery: d + op.DeliveryID(2*i), Ownership: own}
		l.must(o)
	}
	l.must(op.Op{Kind: op.KindNack, Group: g, Sequence: 2, Delivery: d + 1, Ownership: own})
	l.must(op.Op{Kind: op.KindRedrive, Topic: id + 1, Sequence: 2})
	l.must(op.Op{Kind: op.KindPurge, Topic: id + 1, Sequence: 1})
	l.m.BeginCheckpoint()
	metadata = l.m.EncodeMetadata(nil)
	log, done := l.m.NextCheckpointPiece(PieceLog, nil, 1<<20)
	cursor, done2 := l.m.NextCheckpointPiece(PieceCursor, nil, 1<<20)
	if !done || !done2 || l.m.Checkpointing() {
		t.Fatal("not done")
	}
	return l.m, metadata, log, cursor
}

func loadAll(metadata, log, cursor []byte) (*Machine, error) {
	m := New()
	return m, errors.Join(m.LoadMetadata(metadata), m.LoadLogPiece(log), m.LoadCursorPiece(cursor), m.FinishLoad())
}

// Goal: what is cut, missing or doubled in a checkpoint is an error, never a
// panic and never a state that breaks an invariant.
func TestLoadDamage(t *testing.T) {
	m, metadata, log, cursor := sample(t)
	if got, err := loadAll(metadata, log, cursor); err != nil || got.Digest() != m.Digest() {
		t.Fatal(err)
	}
	parts := [][]byte{metadata, log, cursor}
	try := func(what string, i int, b []byte) {
		p := slices.Clone(parts)
		p[i] = b
		if _, err := loadAll(p[0], p[1], p[2]); err == nil {
			t.Errorf("%s of part %d is not noticed", what, i)
		}
	}
	for i, b := range parts {
		for n := range b {
			try("a cut", i, b[:n])
		}
		try("a double", i, append(bytes.Clone(b), b...))
	}
	try("the other kind", 1, cursor)
	try("the other kind", 2, log)
}

// Goal: no bytes make loading panic; what loads is sound.
func FuzzLoad(f *testing.F) {
	_, metadata, log, cursor := sample(f)
	f.Add(metadata, log, cursor)
	f.Fuzz(func(t *testing.T, a, b, c []byte) {
		if m, err := loadAll(a, b, c); err == nil {
			if err := m.Check(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// Goal: a checkpoint that is given up, or begun again, leaves nothing behind.
func TestCheckpointAbort(t *testing.T) {
	l := newLog(t, op.Settings{})
	id := l.topic("t", 1)
	l.publish(id, 0, 3)
	l.m.BeginCheckpoint()
	l.publish(id, 0, 1)
	l.m.NextCheckpointPiece(PieceLog, nil, 1)
	l.m.AbortCheckpoint()
	l.publish(id, 0, 1)
	l.m.BeginCheckpoint()
	l.publish(id, 0, 1)
	l.m.BeginCheckpoint()
	metadata, want := l.m.EncodeMetadata(nil), l.m.Digest()
	l.publish(id, 0, 1)
	var log []byte
	for done := false; !done; {
		log, done = l.m.NextCheckpointPiece(PieceLog, log, len(log)+1)
	}
	cursor, _ := l.m.NextCheckpointPiece(PieceCursor, nil, 1)
	m, err := loadAll(metadata, log, cursor)
	if err != nil || m.Digest() != want {
		t.Fatal(err)
	}
}
