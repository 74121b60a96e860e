package store

import (
	"strings"
	"testing"
)

// Goal: what ends the store is named, with its path: a segment or a checkpoint that
// cannot be synced is not the journal.
func TestFailureNamesItsFile(t *testing.T) {
	for path, says := range map[string]string{
		"journal/":       "the journal file journal/0",
		"superblock":     "the superblock superblock.mmsb",
		"topics/1/":      "the segment topics/1/",
		"metadata/0":     "the metadata file metadata/0.mmml",
		"checkpoints/lo": "the checkpoint checkpoints/log-",
		"checkpoints/cu": "the checkpoint checkpoints/cursor-",
	} {
		w := newWorld(t, 17)
		m := &model{}
		m.start(w)
		w.recover()
		w.install(1)
		for range 12 {
			w.append2(m, 1000)
		}
		w.until("prepared files", func() bool { return w.s.journal.Prepared() > 0 })
		w.disk.FailNextSync(path)
		m.app.work(true, 3)
		w.turn()
		b := w.build(1, []byte("x"))
		m.note(b)
		w.s.Append(b)
		w.turn()
		w.until("the end", func() bool {
			if w.events[EventJournalFailed] == 0 {
				m.app.work(false, 3)
				w.turn()
			}
			return w.events[EventJournalFailed] > 0
		})
		if !strings.HasPrefix(w.last.What, says) || !strings.HasPrefix(w.last.Path, path) || !strings.HasSuffix(w.last.What, w.last.Path+": "+w.last.Err.String()) {
			t.Errorf("%s: path %q, what %q", path, w.last.Path, w.last.What)
		}
	}
}
