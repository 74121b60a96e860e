package store

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/sim/simdisk"
)

// Goal: a directory that has lost its superblock and holds a journal file of a
// format that this binary does not know is refused with that version, and nothing
// in it is changed: it does not pass for an empty one.
func TestNewerJournalIsNotFresh(t *testing.T) {
	w := newWorld(t, 3)
	w.start()
	w.recover()
	w.install(1)
	w.append(1, []byte("acknowledged"))
	w.crash(simdisk.Kill)
	path := format.JournalName(1)
	newer := bytes.Clone(w.disk.ReadFile(path)[:format.JournalBlock])
	newer[4] = 9
	binary.BigEndian.PutUint32(newer[len(newer)-4:], crc32.Checksum(newer[:len(newer)-4], op.Castagnoli))
	for i, b := range w.disk.ReadFile(path)[:format.JournalBlock] {
		newer[i] ^= b
	}
	w.disk.Rot(path, 0, newer)
	w.disk.Lose(superblockPath)
	for _, other := range w.disk.Files() {
		if strings.HasPrefix(other, "journal/") && other != path {
			w.disk.Lose(other)
		}
	}
	before := bytes.Clone(w.disk.ReadFile(path))
	w.start()
	for w.recovered == nil && w.events[EventRefused]+w.events[EventDamage] == 0 && w.step() {
	}
	if w.events[EventRefused] != 1 || w.last.Path != path || w.last.Version != 9 || !strings.HasPrefix(w.last.What, "SEGMENT_VERSION_TOO_NEW: "+path) {
		t.Fatalf("%v, %+v", w.events, w.last)
	}
	if !bytes.Equal(before, w.disk.ReadFile(path)) {
		t.Fatal("the file was changed")
	}
}
