package store

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/sim/simdisk"
)

// script runs a file of testdata: commands, each followed by ---- and what it
// says. With MORTAR_REWRITE=1 the files are written anew.
//
//	new                          an empty directory, formed, epoch 1 installed
//	install N                    epoch N is installed
//	append N [size=BYTES]        N entries, each flushed
//	batch N [size=BYTES]         N entries in one write, flushed
//	idle                         until the journal has marked its end
//	apply [checkpoint]           what a node does with all that is flushed
//	rot PATH AT [LENGTH]         flips bits
//	zero PATH AT LENGTH          overwrites with zeros
//	grow PATH LENGTH             bytes are put behind the end of a file
//	version PATH                 raises the format version, checksum and all
//	lose PATH                    the file vanishes
//	swap PATH PATH               two files change places
//	craft file=N at=A first=F mark=M [lap=L]  a write as file L would hold it
//	header file=N first=F        a file's header, joining entry F-1
//	restart [kill|power] [node=N]  the next life, up to its end or Recovered
//	files DIR                    the names in a directory
type script struct {
	t   *testing.T
	w   *world
	m   *model
	out strings.Builder
}

// Goal: recovery tells a torn end from damage, cuts the one, reports the other
// and changes nothing, as storage.md says, case by case.
func TestScripts(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatal("no scripts", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			s := &script{t: t}
			var all strings.Builder
			for block := range strings.SplitSeq(strings.TrimSpace(string(b)), "\n\n") {
				commands, _, _ := strings.Cut(block, "\n----")
				s.out.Reset()
				for line := range strings.SplitSeq(commands, "\n") {
					if line != "" && !strings.HasPrefix(line, "#") {
						s.run(strings.Fields(line))
					}
				}
				fmt.Fprintf(&all, "%s\n----\n%s\n", strings.TrimSpace(commands), s.out.String())
			}
			got := strings.TrimRight(all.String(), "\n") + "\n"
			if os.Getenv("MORTAR_REWRITE") != "" {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if got != string(b) {
				t.Fatalf("%s says otherwise; got:\n%s", path, got)
			}
		})
	}
}

func (s *script) run(words []string) {
	args := map[string]int{}
	var rest []string
	for _, word := range words[1:] {
		if key, value, ok := strings.Cut(word, "="); ok {
			n, err := strconv.Atoi(value)
			if err != nil {
				s.t.Fatal(words, err)
			}
			args[key] = n
		} else {
			rest = append(rest, word)
		}
	}
	number := func(i int) int {
		n, err := strconv.Atoi(rest[i])
		if err != nil {
			s.t.Fatal(words, err)
		}
		return n
	}
	switch words[0] {
	case "new":
		s.w = newWorld(s.t, 7)
		s.m = &model{}
		s.m.start(s.w)
		s.w.recover()
		s.w.install(1)
	case "append":
		for range number(0) {
			s.append(1, args["size"])
		}
	case "batch":
		s.append(number(0), args["size"])
	case "install":
		s.w.install(op.Epoch(number(0)))
	case "idle":
		s.settle()
	case "apply":
		s.apply(len(rest) > 0)
	case "rot":
		length := 1
		if len(rest) > 2 {
			length = number(2)
		}
		s.flip(rest[0], number(1), slices.Repeat([]byte{0x20}, length))
	case "zero":
		s.overwrite(rest[0], number(1), make([]byte, number(2)))
	case "grow":
		s.grow(rest[0], number(1))
	case "version":
		s.version(rest[0])
	case "lose":
		if !s.w.disk.Lose(rest[0]) {
			s.t.Fatal("cannot lose", rest[0])
		}
	case "swap":
		a, b := s.w.disk.ReadFile(rest[0]), s.w.disk.ReadFile(rest[1])
		s.overwrite(rest[0], 0, b)
		s.overwrite(rest[1], 0, a)
	case "craft":
		s.craft(args)
	case "header":
		h := format.JournalHeader{File: uint64(args["file"]), ClusterID: testCluster, First: op.Number(args["first"]), PrevHash: s.m.entries[args["first"]-2].hash}
		b := make([]byte, format.JournalBlock)
		h.Put(b)
		s.overwrite(format.JournalName(h.File), 0, b)
	case "restart":
		s.restart(slices.Contains(rest, "power"), args["node"])
	case "files":
		entries, err := s.w.disk.List(rest[0])
		if err != nil {
			s.t.Fatal(err)
		}
		for _, e := range entries {
			fmt.Fprintf(&s.out, "%s\n", e.Name)
		}
	default:
		s.t.Fatal("unknown command", words)
	}
}

func (s *script) append(n, size int) {
	values := make([][]byte, n)
	for i := range values {
		values[i] = slices.Repeat([]byte{byte(len(s.m.entries) + i + 1)}, size)
	}
	b := &op.Builder{}
	s.w.until("room to append", s.w.s.CanAppend)
	number, hash := s.w.s.Last()
	for _, v := range values {
		// A batch would collect them in one entry: each is sealed alone.
		one := buildAfter(number, hash, 1, v)
		e := one.Entry(0)
		b.AddRaw(&e)
		number, hash = e.Header.Number, e.Hash()
	}
	s.m.note(b)
	s.w.s.Append(b)
	s.w.turn()
	s.w.until("Flushed", func() bool { return s.w.flushed == number })
}

// settle runs until nothing is due soon.
func (s *script) settle() {
	end := s.w.now.Add(500 * clock.Millisecond)
	for s.w.now < end && s.w.step() {
	}
}

func (s *script) apply(checkpoint bool) {
	done := s.w.events[EventCheckpointDone]
	checkpoint = checkpoint && s.m.app.applied > s.w.s.CheckpointOp()
	s.m.app.work(checkpoint, 4)
	n := 0
	for checkpoint && s.w.events[EventCheckpointDone] == done || s.w.s.Checkpointing() {
		if n++; n > 10_000 || !s.w.step() {
			s.t.Fatalf("the checkpoint does not end: %v, applied %d, checkpoint %d", s.w.events, s.m.app.applied, s.w.s.CheckpointOp())
		}
		s.m.app.work(false, 4)
		s.w.turn()
	}
}

func (s *script) flip(path string, at int, mask []byte) {
	if !s.w.disk.Rot(path, int64(at), mask) {
		s.t.Fatal("cannot rot", path, at)
	}
}

// overwrite changes bytes at rest.
func (s *script) overwrite(path string, at int, b []byte) {
	mask := make([]byte, len(b))
	if n := s.w.disk.ReadAt(path, int64(at), mask); n != len(b) {
		s.t.Fatal("cannot overwrite", path, at, n)
	}
	for i := range mask {
		mask[i] ^= b[i]
	}
	s.flip(path, at, mask)
}

// grow puts bytes behind the end of a file, as another process would.
func (s *script) grow(path string, n int) {
	const handle = 9 << 24
	s.w.disk.Submit([]disk.Request{
		{Kind: disk.KindOpen, Lane: disk.LaneBackground, Handle: handle, Path: path},
		{Kind: disk.KindWrite, Lane: disk.LaneBackground, Handle: handle, Offset: s.w.disk.Size(path), Buf: slices.Repeat([]byte{7}, n)},
		{Kind: disk.KindSync, Lane: disk.LaneBackground, Handle: handle},
		{Kind: disk.KindClose, Lane: disk.LaneBackground, Handle: handle},
	})
	s.settle()
}

// version raises the format version of a file in all headers it has.
func (s *script) version(path string) {
	b := s.w.disk.ReadFile(path)
	size, headers := 64, 1
	switch string(b[:4]) {
	case format.SuperblockMagic:
		size, headers = 4096, 2
	case format.JournalMagic:
		size = 4096
	case format.LogCheckpointMagic, format.CursorCheckpointMagic:
		size = 128
	}
	for i := range headers {
		h := slices.Clone(b[i*size : (i+1)*size])
		h[4] = 9
		binary.BigEndian.PutUint32(h[size-4:], crc32.Checksum(h[:size-4], op.Castagnoli))
		s.overwrite(path, i*size, h)
	}
}

// craft puts a write of one entry of two bytes into a file.
func (s *script) craft(args map[string]int) {
	first := args["first"]
	var prev op.Hash
	if first >= 2 && first-2 < len(s.m.entries) {
		prev = s.m.entries[first-2].hash
	}
	epoch := op.Epoch(max(1, args["epoch"]))
	b := buildAfter(op.Number(first-1), prev, epoch, []byte{1, 2})
	lap := args["file"]
	if args["lap"] > 0 {
		lap = args["lap"]
	}
	seed := format.JournalSeed(testCluster, uint64(lap))
	buf := b.Padded()
	span := b.Spans()[0]
	format.PutFrame(buf[span.Start:span.End], seed)
	w := format.JournalWrite{File: uint64(lap), Mark: op.Number(args["mark"]), First: op.Number(first), Bytes: uint32(b.Len()), Entries: 1}
	w.Put(buf, seed)
	s.overwrite(format.JournalName(uint64(args["file"])), args["at"], buf)
	if args["keep"] > 0 {
		s.m.note(b)
	}
}

// restart begins the next life and says how it went.
func (s *script) restart(power bool, node int) {
	kind := simdisk.Kill
	if power {
		kind = simdisk.PowerLoss
	}
	s.w.crash(kind)
	before := s.digest()
	opts := s.w.opts
	if node > 0 {
		s.w.opts.NodeID = uint16(node)
	}
	s.m.start(s.w)
	s.w.opts = opts
	w := s.w
	for w.recovered == nil && w.events[EventRefused] == 0 && w.events[EventJournalFailed] == 0 && !slices.ContainsFunc(w.damage, func(e Event) bool { return e.Fatal }) {
		if !w.step() {
			s.t.Fatal("recovery does not end", w.kinds)
		}
	}
	s.say()
	if w.recovered == nil {
		for w.step() {
		}
		if after := s.digest(); after != before {
			fmt.Fprintf(&s.out, "files were changed\n")
		}
		return
	}
	if w.recovered.Promised == 0 {
		s.m.entries = nil
		w.install(1)
	} else {
		s.m.entries, s.m.epochs = s.m.entries[:w.recovered.Number], s.m.epochs[:w.recovered.Number]
	}
}

// say prints what the present life has reported.
func (s *script) say() {
	w := s.w
	for _, e := range w.torn {
		fmt.Fprintf(&s.out, "torn %s at %d, op %d: %s\n", e.Path, e.Offset, e.Number, e.What)
	}
	for _, e := range w.repaired {
		if strings.HasPrefix(e.Path, "checkpoints/") {
			fmt.Fprintf(&s.out, "cut %s back to %d, now %d\n", e.Path, e.Offset, w.disk.Size(e.Path))
		}
	}
	for _, e := range w.damage {
		fmt.Fprintf(&s.out, "damage %s at %d, %d, fatal %v: %s\n", e.Path, e.Offset, e.Sequence, e.Fatal, e.What)
	}
	if w.events[EventRefused] > 0 {
		fmt.Fprintf(&s.out, "refused %s\n", w.last.What)
	}
	if w.loaded.Number > 0 {
		fmt.Fprintf(&s.out, "checkpoint %d\n", w.loaded.Number)
	}
	if w.recovered != nil {
		fmt.Fprintf(&s.out, "recovered %d, replayed %d\n", w.recovered.Number, len(w.entries))
	}
}

// digest sums up all names and bytes.
func (s *script) digest() string {
	var b strings.Builder
	for _, path := range s.w.disk.Files() {
		fmt.Fprintf(&b, "%s %d %x\n", path, s.w.disk.Size(path), crc32.ChecksumIEEE(s.w.disk.ReadFile(path)))
	}
	return b.String()
}
