package disktest

import (
	"bytes"

	"github.com/mortarmq/mortarmq/disk"
)

// lossRounds is how often a power loss is tried: each draws other losses.
const lossRounds = 40

// Goal, invariant 3: what completed before a Sync was submitted is there after a
// power loss, whatever else was written and not synced.
func testSyncIsDurable(s *suite) {
	s.ok(openFile(1, "a", disk.FlagCreate), onPath(disk.KindSyncDir, ""), closeFile(1))
	var model []byte
	for round := range lossRounds {
		s.ok(openFile(1, "a", 0))
		got := s.content(1)
		if len(got) < len(model) || !bytes.Equal(got[:len(model)], model) {
			s.Fatalf("round %d: synced bytes are gone", round)
		}
		b := pattern(round, 3000+100*round)
		w := write(1, int64(len(model)), b)
		w.Lane = disk.LaneBackground
		s.ok(w)
		s.ok(sync(1))
		model = append(model, b...)
		// Behind the last sector that holds a synced byte, and never synced.
		s.ok(write(1, int64(len(model)+511)/512*512, pattern(-round, 7000)))
		s.PowerLoss()
	}
}

// Goal, invariant 3: a Sync covers what precedes it in its own lane, unwaited.
func testSyncCoversItsLane(s *suite) {
	s.ok(openFile(1, "a", disk.FlagCreate), onPath(disk.KindSyncDir, ""), closeFile(1))
	for round := range lossRounds {
		b := pattern(round, 9000)
		s.ok(openFile(1, "a", 0), truncate(1, 0), zero(1, 0, 20000), write(1, 5000, b), sync(1))
		s.PowerLoss()
		s.ok(openFile(1, "a", 0))
		want := overlay(make([]byte, 20000), 5000, b)
		if got := s.content(1); !bytes.Equal(got, want) {
			s.Fatalf("round %d: truncate, zero or write before the sync in its lane was lost", round)
		}
		s.ok(closeFile(1))
	}
}

// Goal, invariant 3: names are durable after SyncDir.
func testSyncDirIsDurable(s *suite) {
	for round := range lossRounds {
		name := string(rune('a' + round%20))
		s.ok(onPath(disk.KindMkdir, "d"), onPath(disk.KindSyncDir, ""))
		s.ok(openFile(1, "d/"+name, disk.FlagCreate), write(1, 0, []byte(name)), sync(1), onPath(disk.KindSyncDir, "d"))
		s.ok(openFile(2, "d/unsynced", disk.FlagCreate), write(2, 0, pattern(round, 5000)))
		s.PowerLoss()
		s.ok(openFile(1, "d/"+name, 0))
		if got := s.content(1); string(got) != name {
			s.Fatalf("round %d: %q", round, got)
		}
		s.ok(closeFile(1), onPath(disk.KindRemove, "d/"+name), onPath(disk.KindSyncDir, "d"))
		s.PowerLoss()
		s.fails(disk.ErrNotExist, openFile(1, "d/"+name, 0))
	}
}

// Goal: a rename that no SyncDir covered happened or did not, and never leaves
// neither name.
func testRenameIsAtomic(s *suite) {
	old, happened := []byte("old"), 0
	s.ok(openFile(1, "a", disk.FlagCreate), write(1, 0, old), sync(1), onPath(disk.KindSyncDir, ""), closeFile(1))
	for round := range lossRounds {
		fresh := pattern(round, 600)
		s.ok(openFile(1, "a.new", disk.FlagCreate), truncate(1, 0), write(1, 0, fresh), sync(1), rename("a.new", "a"))
		s.PowerLoss()
		s.ok(openFile(1, "a", 0))
		switch got := s.content(1); {
		case bytes.Equal(got, fresh):
			old = fresh
			happened++
		case !bytes.Equal(got, old):
			s.Fatalf("round %d: the name holds %d bytes of neither file", round, len(got))
		}
		s.ok(closeFile(1))
	}
	if happened == 0 || happened == lossRounds {
		s.Errorf("%d of %d renames happened: the power loss draws nothing", happened, lossRounds)
	}
}

// Goal: Mkdir makes durable the parents that it created, all but the last, whose
// name a SyncDir of its parent makes durable.
func testMkdirParents(s *suite) {
	for round := range lossRounds {
		top := "top" + string(rune('a'+round))
		s.ok(onPath(disk.KindMkdir, top+"/x/y"))
		synced := round%2 == 0
		if synced {
			s.ok(onPath(disk.KindSyncDir, top+"/x"))
		}
		s.PowerLoss()
		s.ok(onPath(disk.KindList, top+"/x"))
		if synced {
			s.ok(onPath(disk.KindList, top+"/x/y"))
		}
	}
}

// Goal, invariant 3: a truncation that was synced stays, and what it cut off does
// not come back behind a file that grows again.
func testTruncateIsDurable(s *suite) {
	s.ok(openFile(1, "a", disk.FlagCreate), onPath(disk.KindSyncDir, ""), closeFile(1))
	for round := range lossRounds {
		s.ok(openFile(1, "a", 0), write(1, 0, pattern(round, 20000)), sync(1))
		s.ok(truncate(1, 5000), sync(1), truncate(1, 12000))
		s.PowerLoss()
		s.ok(openFile(1, "a", 0))
		got := s.content(1)
		if len(got) < 5000 || !bytes.Equal(got[:5000], pattern(round, 20000)[:5000]) {
			s.Fatalf("round %d: what was kept is gone", round)
		}
		if !bytes.Equal(got[5000:], make([]byte, len(got)-5000)) {
			s.Fatalf("round %d: what was cut off came back", round)
		}
		s.ok(closeFile(1))
	}
}
