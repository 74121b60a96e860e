package journal

import (
	"testing"

	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/node/op"
)

// bench drives a journal on a disk that takes everything, but for what refuse
// says.
type bench struct {
	j       *Journal
	now     clock.Instant
	open    map[disk.Handle]bool
	refuse  func(r *disk.Request) disk.Errno
	renames int
	events  map[EventKind]int
}

func (b *bench) settle() {
	for {
		var ev Event
		for b.j.Next(&ev) {
			if b.events[ev.Kind]++; ev.Kind == EventRewritten {
				b.j.Stream(1)
			}
		}
		reqs := b.j.Take(nil)
		if len(reqs) == 0 {
			return
		}
		for i := range reqs {
			r := &reqs[i]
			c := disk.Completion{Tag: r.Tag, Kind: r.Kind, Handle: r.Handle, Err: b.refuse(r)}
			switch {
			case c.Err != disk.OK:
			case r.Kind == disk.KindOpen:
				b.open[r.Handle] = true
			case r.Kind == disk.KindClose:
				delete(b.open, r.Handle)
			case r.Kind == disk.KindRename:
				b.renames++
			case r.Kind == disk.KindWrite, r.Kind == disk.KindZero, r.Kind == disk.KindSync:
				if !b.open[r.Handle] {
					c.Err = disk.ErrBadHandle
				}
			}
			b.j.Complete(b.now, &c)
		}
	}
}

// begin has the journal run.
func (b *bench) begin() {
	b.j = New(Options{FileBytes: 16 << 10, FreeFiles: 4, IdleMarkAfter: clock.Second, RetryEvery: clock.Second, ReadChunkBytes: 8 << 10, Owner: 2, Handles: 2 << 24})
	b.j.Fresh([16]byte{1})
	b.settle()
}

// append appends an entry of two blocks.
func (b *bench) append(t *testing.T) {
	t.Helper()
	if !b.j.CanAppend() {
		t.Fatalf("cannot append: %v", b.events)
	}
	number, hash := b.j.Last()
	var o op.Builder
	o.Add(&op.Op{Kind: op.KindPublish, Value: make([]byte, 5000)})
	o.Seal(op.Header{Number: number + 1, Epoch: 1, PrevHash: hash})
	b.j.Append(&o)
	b.settle()
}

// Goal: a new file that finds no room is given up for a file that is retired
// meanwhile: the journal does not wait for space that it has itself.
func TestRetiredFileInPlaceOfNewOne(t *testing.T) {
	full := false
	b := &bench{open: map[disk.Handle]bool{}, events: map[EventKind]int{}}
	b.refuse = func(r *disk.Request) disk.Errno {
		if r.Kind == disk.KindZero && full {
			return disk.ErrNoSpace
		}
		return disk.OK
	}
	b.begin()
	for range 5 {
		b.append(t)
	}
	full = true
	flushed := func() bool { last, _ := b.j.Last(); return b.j.Flushed() == last }
	for flushed() {
		b.append(t)
	}
	if b.renames > 0 || b.events[EventStalled] == 0 {
		t.Fatalf("%d renames, %v", b.renames, b.events)
	}
	b.j.Retire(b.j.writer.file.number)
	b.now = b.now.Add(2 * clock.Second)
	b.j.Tick(b.now)
	b.settle()
	if !flushed() || b.renames == 0 || b.events[EventFailed] > 0 {
		t.Fatalf("flushed %v, %d renames, %v", flushed(), b.renames, b.events)
	}
	b.append(t)
	if !flushed() {
		t.Fatal("the next entry waits")
	}
}

// Goal: a retired file that cannot get its new name because the directory has no
// room is tried again, and does not end the journal.
func TestRenameOnFullDisk(t *testing.T) {
	full, refused := false, false
	b := &bench{open: map[disk.Handle]bool{}, events: map[EventKind]int{}}
	b.refuse = func(r *disk.Request) disk.Errno {
		switch {
		case r.Kind == disk.KindRename && full:
			refused = true
			return disk.ErrNoSpace
		case r.Kind == disk.KindOpen && refused && r.Flags&disk.FlagCreate == 0:
			return disk.ErrNotExist // it has no such name
		}
		return disk.OK
	}
	b.begin()
	append1 := func() { t.Helper(); b.append(t) }
	for range 5 {
		append1()
	}
	full = true
	b.j.Retire(b.j.writer.file.number)
	b.settle()
	for range 2 {
		append1()
	}
	if !refused || b.events[EventFailed] > 0 {
		t.Fatalf("no rename was refused, or it ended the journal: %v", b.events)
	}
	for round := range 3 {
		if round == 1 {
			full, refused = false, false
		}
		b.now = b.now.Add(2 * clock.Second)
		b.j.Tick(b.now)
		b.settle()
	}
	if b.events[EventFailed] > 0 || b.renames == 0 || b.j.Prepared() == 0 {
		t.Fatalf("%v, %d renames, %d prepared", b.events, b.renames, b.j.Prepared())
	}
	append1()
}

// appendBytes appends an entry of about size bytes, and says whether it is flushed.
func (b *bench) appendBytes(size int) bool {
	number, hash := b.j.Last()
	var o op.Builder
	o.Add(&op.Op{Kind: op.KindPublish, Value: make([]byte, size)})
	o.Seal(op.Header{Number: number + 1, Epoch: 1, PrevHash: hash})
	b.j.Append(&o)
	b.settle()
	if w := &b.j.writer; size < 3<<10 && w.offset > b.j.options.FileBytes/2 && b.j.Prepared() < 2 {
		b.events[EventNone]++ // a start on a full disk may find no file
	}
	return b.flushed()
}

func (b *bench) flushed() bool { last, _ := b.j.Last(); return b.j.Flushed() == last }

// Goal: no write leaves less than two prepared files behind the first half of the
// current one, as long as it takes no more than half a file, as all do with files of
// the usual size. One that is larger than half a file, or than a file, waits for
// nothing that does not come: with room it is flushed at once, wherever the current file is
// at; on a full disk it waits, and goes on when there is room, or when a checkpoint
// lets go of files.
func TestWritesOfAnySize(t *testing.T) {
	for _, size := range []int{2 << 10, 7 << 10, 9 << 10, 13 << 10, 15 << 10, 17 << 10, 70 << 10} {
		for before := range 4 {
			for _, way := range []string{"room", "full", "full, then retired"} {
				full, room := false, 0 // for so many files
				b := &bench{open: map[disk.Handle]bool{}, events: map[EventKind]int{}}
				b.refuse = func(r *disk.Request) disk.Errno {
					switch {
					case r.Kind == disk.KindRemove:
						room++
					case r.Kind == disk.KindZero && full && room == 0:
						return disk.ErrNoSpace
					case r.Kind == disk.KindZero:
						room = max(0, room-1)
					}
					return disk.OK
				}
				b.begin()
				for range before {
					b.append(t)
				}
				full = way != "room"
				went := 0
				for went < 12 && b.appendBytes(size) {
					went++
				}
				if way == "room" && went < 12 {
					t.Fatalf("%d bytes behind %d: write %d waits though there is room", size, before, went)
				}
				if way == "full" {
					full = false
				}
				for range 8 { // as often as the files of this write are used up
					if b.flushed() {
						break
					}
					if b.j.Retire(b.j.writer.file.number); way != "full" {
						b.settle()
					}
					b.now = b.now.Add(2 * clock.Second)
					b.j.Tick(b.now)
					b.settle()
				}
				if b.events[EventNone] > 0 {
					t.Fatalf("%d bytes behind %d, %s: beyond half of a file without two prepared ones", size, before, way)
				}
				if !b.flushed() || b.events[EventFailed] > 0 {
					t.Fatalf("%d bytes behind %d, %s: waits for ever, %d prepared, %v", size, before, way, b.j.Prepared(), b.events)
				}
			}
		}
	}
}
