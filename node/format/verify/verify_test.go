package verify

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/op"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "write the golden files")

// Goal: a directory in which nothing is wrong has no finding, and is read whole.
func TestWhole(t *testing.T) {
	files, _, _, _ := directory(t)
	r := Verify(files, fixture)
	if len(r.Findings) > 0 {
		t.Fatalf("%v", r.Findings)
	}
	if r.Records != 300 || r.Entries != 5 || r.Files < 12 || r.Bytes < 300*900 {
		t.Errorf("%+v", r)
	}
	if len(r.Versions) != 8 || len(r.NotReadableBy(0)) != 8 || len(r.NotReadableBy(1)) != 0 {
		t.Errorf("%+v", r.Versions)
	}
	if r := Verify(tree{}, fixture); len(r.Findings) != 1 || r.Damaged() {
		t.Errorf("a fresh directory: %v", r.Findings)
	}
}

// planted is one way to break a directory, and what has to be said of it.
type planted struct {
	name  string
	level Level
	plant func() // on the variables of the test
	path  string
	at    int64
	seq   uint64
	what  string
}

// Goal: each kind of damage is found, named by path, offset and sequence, and
// told from what a crash leaves; nothing is changed.
func TestPlanted(t *testing.T) {
	pristine, super, positions, at := directory(t)
	var files tree
	flip := func(path string, off int) func() {
		return func() { files[path][off] ^= 0x10 }
	}
	lose := func(path string) func() { return func() { delete(files, path) } }
	active := "topics/1/0/" + format.SegmentName(positions[0].Base, format.SegmentSuffix)
	j2, j3 := format.JournalName(2), format.JournalName(3)
	const sealed, index = "topics/1/0/1.mqs", "topics/1/0/1.mqi"
	off10 := offset(t, pristine[sealed], 10)
	logPath, cursorPath := format.LogCheckpointName(2), format.CursorCheckpointName(2)
	for _, c := range []planted{
		{"sealed record", Damage, flip(sealed, int(off10)+500), sealed, off10, 10, "checksum"},
		{"sealed length", Damage, flip(sealed, int(off10)), sealed, off10, 10, "length"},
		{"sealed header", Damage, flip(sealed, 20), sealed, 0, 1, "header"},
		{"sealed cut short", Damage, func() { files[sealed] = files[sealed][:off10+5] }, sealed, off10, 10, "ends early"},
		{"sealed emptied", Damage, func() { files[sealed] = nil }, sealed, 0, 1, "ends early"},
		{"sealed cut to its header", Damage, func() { files[sealed] = files[sealed][:64] }, sealed, 64, 1, "ends early"},
		{"sealed cut at a record", Damage, func() { files[sealed] = files[sealed][:off10] }, "topics/1/0/10.mqs", 0, 10, "missing"},
		{"sealed lost", Damage, lose(sealed), sealed, 0, 1, "missing"},
		{"sealed and index lost", Damage, func() { lose(sealed)(); lose(index)() }, sealed, 0, 1, "missing"},
		{"active lost", Damage, lose(active), active, 0, uint64(positions[0].Base), "missing"},
		{"active cut short", Damage, func() { files[active] = files[active][:len(files[active])-1] }, active, offset(t, pristine[active], 100), 100, "ends early"},
		{"active's last record", Damage, flip(active, len(pristine[active])-1), active, offset(t, pristine[active], 100), 100, "checksum"},
		{"partition lost", Damage, func() {
			for path := range pristine {
				if strings.HasPrefix(path, "topics/1/1/") {
					delete(files, path)
				}
			}
		}, "topics/1/1/1.mqs", 0, 1, "directory is missing"},
		{"another partition's segment", Damage, func() { files[sealed] = files["topics/1/1/1.mqs"] }, sealed, 0, 1, "another segment"},
		{"newer segment", Damage, func() { newer(files[sealed]) }, sealed, 0, 1, "SEGMENT_VERSION_TOO_NEW"},
		{"index lost", Note, lose(index), index, 0, 1, "index is missing"},
		{"index entry", Note, flip(index, 64+32+7), index, 96, 6, "contradicts"},
		{"index short", Note, func() { files[index] = files[index][:64+32] }, index, 96, 0, "entries are missing"},
		{"index header", Note, flip(index, 3), index, 0, 1, "header"},
		{"bytes behind the position", Note, func() { files[active] = append(files[active], 1, 2, 3) }, active, positions[0].Offset, 101, "cuts"},
		{"later segment", Note, func() { files["topics/1/0/101.mqs"] = []byte("x") }, "topics/1/0/101.mqs", 0, 101, "header"},
		{"unknown topic", Note, func() { files["topics/77/0/1.mqs"] = pristine[sealed] }, "topics/77", 0, 0, "no topic"},
		{"one slot", Note, flip("superblock.mmsb", 100), "superblock.mmsb", 0, 0, "slot 0"},
		{"both slots", Damage, func() { flip("superblock.mmsb", 100)(); flip("superblock.mmsb", 5000)() }, "superblock.mmsb", 0, 0, "both slots"},
		{"superblock lost", Damage, lose("superblock.mmsb"), "superblock.mmsb", 0, 0, "missing"},
		{"journal lost", Damage, lose(j2), j2, 0, 3, "missing"},
		{"last journal lost", Damage, lose(j3), j3, 0, 3, "missing"},
		{"journal cut short", Damage, func() { files[j2] = files[j2][:3*format.JournalBlock] }, j2, 3 * format.JournalBlock, 3, "cut short"},
		{"last journal cut short", Damage, func() { files[j3] = files[j3][:len(files[j3])-1] }, j3, journalBytes - 1, 3, "cut short"},
		{"last journal emptied", Damage, func() { files[j3] = nil }, j3, 0, 3, "cut short"},
		{"journal header", Damage, flip(j2, 10), j3, 0, 3, "before this file's first are missing"},
		{"synced entry", Damage, flip(j2, int(at[2])+200), j2, at[2] + 64, 3, "body is damaged"},
		{"synced entry's header", Damage, flip(j3, int(at[4])+90), j3, at[4] + 64, 5, "header is damaged, but the entry was synced"},
		{"torn entry", Note, func() { flip(j3, int(at[4])+200)(); clear(files[j3][at[5] : at[5]+4096]) }, j3, at[4] + 64, 5, "torn tail"},
		{"torn write", Note, func() { flip(j3, int(at[4])+20)(); clear(files[j3][at[5] : at[5]+4096]) }, j3, at[4], 5, "torn tail"},
		{"superseded epoch", Note, func() { s := super; s.Promised, s.Installed, s.InstalledOp = 3, 3, 4; putSuperblock(files, s) }, j3, at[4] + 64, 5, "superseded"},
		{"superblock went back", Damage, func() { s := super; s.Promised, s.Installed, s.InstalledOp = 0, 0, 0; putSuperblock(files, s) }, j2, format.JournalBlock + 64, 1, "went back"},
		{"snapshot", Damage, flip(format.SnapshotName(3, 1), 100), format.SnapshotName(3, 1), 64, 3, "checksum"},
		{"bytes behind a checkpoint", Note, func() { files[logPath] = append(files[logPath], 1) }, logPath, -1, 2, "nothing reads them"},
		{"metadata directory lost", Damage, func() {
			for path := range pristine {
				if strings.HasPrefix(path, "metadata/") {
					delete(files, path)
				}
			}
		}, "metadata", 0, 0, "directory is missing"},
		{"snapshot lost", Damage, lose(format.SnapshotName(3, 1)), format.SnapshotName(3, 1), 0, 3, "missing"},
		{"metadata record", Damage, flip(format.MetadataName(5), 120), format.MetadataName(5), 64, 5, "damaged metadata"},
		{"metadata file lost", Damage, lose(format.MetadataName(3)), format.MetadataName(3), 0, 3, "missing"},
		{"last metadata file lost", Damage, lose(format.MetadataName(5)), format.MetadataName(5), 0, 5, "missing"},
		{"metadata tail", Note, func() { p := format.MetadataName(5); files[p] = files[p][:len(files[p])-1] }, format.MetadataName(5), 64 + 2*85, 7, "torn tail"},
		{"quarantine", Note, func() { files["metadata/quarantine/3.mmml"] = []byte("x") }, "metadata/quarantine/3.mmml", 0, 0, "set aside"},
		{"log checkpoint", Damage, flip(logPath, 150), logPath, 128, 2, "damaged checkpoint"},
		{"log checkpoint lost", Damage, lose(logPath), logPath, 0, 0, "missing"},
		{"ledger checkpoint lost", Damage, lose(cursorPath), cursorPath, 0, 0, "missing"},
		{"checkpoint cut", Damage, func() { files[cursorPath] = files[cursorPath][:len(files[cursorPath])-3] }, cursorPath, -1, 2, "damaged checkpoint"},
		{"other checkpoint", Note, func() { files[format.LogCheckpointName(9)] = []byte("x") }, format.LogCheckpointName(9), 0, 0, "does not name"},
		{"foreign file", Note, func() { files["topics/1/0/readme.txt"] = nil }, "topics/1/0/readme.txt", 0, 0, "not a file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			files = pristine.clone()
			c.plant()
			before := files.clone()
			r := Verify(files, fixture)
			found := slices.ContainsFunc(r.Findings, func(f Finding) bool {
				return f.Level == c.level && f.Path == c.path && (f.Offset == c.at || c.at < 0) && f.Sequence == c.seq && strings.Contains(f.What, c.what)
			})
			if !found || r.Damaged() != (c.level == Damage) {
				t.Errorf("want %v %s %d %d %q; found", c.level, c.path, c.at, c.seq, c.what)
				for _, f := range r.Findings {
					t.Error(f)
				}
			}
			for path, b := range before {
				if !bytes.Equal(files[path], b) {
					t.Errorf("%s was changed", path)
				}
			}
		})
	}
}

// Goal: every damaged record of a segment is named, not the first alone.
func TestEveryBadRecord(t *testing.T) {
	files, _, _, _ := directory(t)
	const sealed = "topics/1/0/1.mqs"
	whole := bytes.Clone(files[sealed])
	for _, seq := range []op.Sequence{3, 12, 25} {
		files[sealed][offset(t, whole, seq)+100] ^= 1
	}
	var hit []uint64
	for _, f := range Verify(files, fixture).Findings {
		hit = append(hit, f.Sequence)
	}
	if !slices.Equal(hit, []uint64{3, 12, 25}) {
		t.Fatalf("%v", hit)
	}
}

// Goal: no bytes anywhere make a check or a dump panic, hang, or change a file.
func TestAnyRot(t *testing.T) {
	pristine, _, _, _ := directory(t)
	var paths []string
	for path := range pristine {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	rapid.Check(t, func(t *rapid.T) {
		files := tree{}
		for path, b := range pristine {
			files[path] = b
		}
		for range rapid.IntRange(1, 3).Draw(t, "faults") {
			path := rapid.SampledFrom(paths).Draw(t, "path")
			b := bytes.Clone(files[path])
			if len(b) == 0 {
				continue
			}
			switch i := rapid.IntRange(0, len(b)-1).Draw(t, "at"); rapid.IntRange(0, 3).Draw(t, "fault") {
			case 0:
				b = b[:i]
			case 1:
				b = append(b, b[:i]...)
			default:
				copy(b[i:], rapid.SliceOfN(rapid.Byte(), 1, 9).Draw(t, "bytes"))
			}
			files[path] = b
		}
		Verify(files, fixture)
		var out bytes.Buffer
		for _, path := range paths {
			f, _ := files.Open(path)
			Dump(&out, f, DumpOptions{})
			out.Reset()
		}
	})
}

// Goal: every kind of file prints in readable lines; the text is pinned.
func TestDump(t *testing.T) {
	files, _, _, _ := directory(t)
	short, _ := segmentsOf(t, 2)
	var out bytes.Buffer
	for _, path := range []string{"superblock.mmsb", format.JournalName(3), format.MetadataName(5), format.SnapshotName(3, 1), format.LogCheckpointName(2), format.CursorCheckpointName(2)} {
		out.WriteString("# " + path + "\n")
		f, err := files.Open(path)
		if err == nil {
			err = Dump(&out, f, DumpOptions{})
		}
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
	for _, path := range []string{"topics/1/0/1.mqs", "topics/2/0/1.mqs", "topics/1/0/1.mqi"} {
		out.WriteString("# " + path + "\n")
		f, _ := short.Open(path)
		if err := Dump(&out, f, DumpOptions{BytesShown: 8}); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
	path := filepath.Join("testdata", "dump.txt")
	if *update {
		if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(want, out.Bytes()) {
		t.Fatalf("%v; the text is now:\n%s", err, out.Bytes())
	}
	if err := Dump(&out, memory{bytes.NewReader([]byte("#!/bin/sh"))}, DumpOptions{}); err != ErrUnknown {
		t.Fatal(err)
	}
}

func offset(t *testing.T, b []byte, seq op.Sequence) int64 {
	t.Helper()
	for at := format.SegmentHeaderSize; ; {
		r, n, err := format.DecodeRecord(b[at:])
		if err != nil {
			t.Fatal(err)
		}
		if r.Sequence == seq {
			return int64(at)
		}
		at += n
	}
}

// newer makes a segment one of format version 2.
func newer(b []byte) {
	b[4] = 2
	resum(b)
}
