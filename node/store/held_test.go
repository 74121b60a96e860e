package store

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/node/store/segment"
	"github.com/mortarmq/mortarmq/sim/simdisk"
)

// do carries out requests of nobody's.
func (w *world) do(reqs ...disk.Request) {
	w.t.Helper()
	for i := range reqs {
		reqs[i].Lane, reqs[i].Handle = disk.LaneJournal, 77
	}
	w.disk.Submit(reqs)
	for w.disk.NextDeadline() != clock.Never {
		w.now = max(w.now, w.disk.NextDeadline())
		w.disk.Advance(w.now)
	}
	for _, c := range w.disk.Poll(nil) {
		if c.Err != disk.OK {
			w.t.Fatalf("%v: %v", c.Kind, c.Err)
		}
	}
}

// checkpoint has everything applied so far checkpointed.
func (w *world) checkpoint(m *model) {
	w.t.Helper()
	m.app.work(true, 3)
	w.turn()
	w.until("the checkpoint", func() bool {
		m.app.work(false, 3)
		w.turn()
		return !w.s.Checkpointing()
	})
	if w.s.CheckpointOp() != m.app.applied {
		w.t.Fatalf("checkpoint %d, applied %d", w.s.CheckpointOp(), m.app.applied)
	}
}

// Goal: a partition that is found damaged is refused and the rest is served, start
// after start; nothing is written in it, and what the journal had behind its end
// goes over checkpoints. A copy that is put back makes it whole, to the byte.
func TestDamagedPartitionIsLeftAlone(t *testing.T) {
	const dir = "topics/1/1"
	for name, ruin := range map[string]func(w *world, files map[string][]byte){
		"directory lost": func(w *world, _ map[string][]byte) { w.disk.Lose(dir) },
		"a file is there": func(w *world, _ map[string][]byte) {
			w.disk.Lose(dir)
			w.do(disk.Request{Kind: disk.KindOpen, Flags: disk.FlagCreate, Path: dir}, disk.Request{Kind: disk.KindClose})
		},
		"a segment is one": func(w *world, files map[string][]byte) {
			path := newest(files)
			w.disk.Lose(path)
			w.do(disk.Request{Kind: disk.KindMkdir, Path: path})
		},
		"segment lost": func(w *world, files map[string][]byte) { w.disk.Lose(newest(files)) },
		"record": func(w *world, files map[string][]byte) {
			w.disk.Rot(newest(files), int64(len(files[newest(files)]))-1, []byte{4})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 5)
			m := &model{}
			m.start(w)
			w.recover()
			w.install(1)
			add := func(epoch op.Epoch, n int) {
				for range n {
					w.flush(m, w.build(epoch, make([]byte, 2500)))
				}
			}
			add(1, 60)
			w.checkpoint(m)
			files := map[string][]byte{} // of the partition, as of the checkpoint
			for _, path := range w.disk.Files() {
				if strings.HasPrefix(path, dir+"/") {
					files[path] = w.disk.ReadFile(path)
				}
			}
			add(1, 45)
			w.crash(simdisk.PowerLoss)
			ruin(w, files)
			there := listing(w, dir)
			for life := range 3 {
				m.start(w)
				w.recover()
				if len(w.damage) == 0 || w.damage[0].Fatal {
					t.Fatalf("life %d: damage %+v", life, w.damage)
				}
				for _, part := range []op.PartitionID{0, 1, 2} {
					for seq := op.Sequence(1); seq <= m.app.parts[part]; seq++ {
						_, st := w.s.Read(1, part, seq)
						for ; st == segment.Pending; _, st = w.s.Read(1, part, seq) {
							w.turn()
							w.step()
						}
						if held := seq > 20; (part != 1 || held) && st != segment.Hit {
							t.Fatalf("life %d: record %d of partition %d: status %d", life, seq, part, st)
						}
					}
				}
				w.install(op.Epoch(life + 2))
				if life > 0 {
					add(op.Epoch(life+2), 3)
					w.checkpoint(m)
				}
				w.crash(simdisk.PowerLoss)
				if now := listing(w, dir); now != there {
					t.Fatalf("life %d: the partition was\n%s\nand is now\n%s", life, there, now)
				}
			}
			w.disk.Lose(dir)
			w.do(disk.Request{Kind: disk.KindMkdir, Path: dir})
			for path, b := range files {
				w.do(disk.Request{Kind: disk.KindOpen, Flags: disk.FlagCreate, Path: path}, disk.Request{Kind: disk.KindWrite, Buf: b}, disk.Request{Kind: disk.KindSync}, disk.Request{Kind: disk.KindClose})
			}
			w.do(disk.Request{Kind: disk.KindSyncDir, Path: dir}, disk.Request{Kind: disk.KindSyncDir, Path: "topics/1"})
			m.start(w)
			w.recover()
			if len(w.damage) > 0 {
				t.Fatalf("put back: %+v", w.damage)
			}
			m.app.readAll(m.entries)
			w.install(9)
			add(9, 3)
			w.checkpoint(m)
			w.crash(simdisk.PowerLoss)
			m.start(w)
			w.recover()
			m.app.readAll(m.entries)
			if bases := listing(w, dir); strings.Contains(bases, format.SegmentName(21, format.SegmentSuffix)) || len(w.damage) > 0 {
				t.Fatalf("a segment begins behind what was damaged: %s, %+v", bases, w.damage)
			}
		})
	}
}

// newest gives the newest segment among files.
func newest(files map[string][]byte) string {
	best, path := op.Sequence(0), ""
	for p := range files {
		if base, index, ok := format.ParseSegmentName(p[strings.LastIndexByte(p, '/')+1:]); ok && !index && base > best {
			best, path = base, p
		}
	}
	return path
}

// listing gives all that is in dir, with checksums of its bytes.
func listing(w *world, dir string) string {
	var all []string
	for _, path := range w.disk.Files() {
		if path == dir || strings.HasPrefix(path, dir+"/") {
			all = append(all, fmt.Sprintf("%s %x", path, sha256.Sum256(w.disk.ReadFile(path))))
		}
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}
