package verify

import (
	"cmp"
	"errors"
	"slices"

	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/op"
)

// Options say how the directory was written. The zero value is a broker's.
type Options struct {
	// JournalFileBytes is the size of journal files in bytes. Default
	// format.JournalFileBytes.
	JournalFileBytes int64
}

// verifier is one check under way.
type verifier struct {
	fs      FS
	options Options
	report  Report
	// super is what the superblock says, nil if no slot is whole.
	super *format.Superblock
	// clusterID is the superblock's, or that of the first file that has one.
	clusterID   [16]byte
	clusterFrom string
	// marked is the highest entry that something says was synced.
	marked op.Number
	// positions are where the log checkpoint says that partitions end, in order.
	positions []format.Position
}

// Verify checks the whole data directory. Errors of reading are findings.
func Verify(fs FS, o Options) *Report {
	if o.JournalFileBytes == 0 {
		o.JournalFileBytes = format.JournalFileBytes
	}
	v := &verifier{fs: fs, options: o}
	if v.superblock() {
		v.journal()
		v.metadata()
	}
	v.checkpoints()
	v.topics()
	return &v.report
}

// Segments checks the segments of all partitions alone, against positions known
// from elsewhere, in order.
func Segments(fs FS, clusterID [16]byte, positions []format.Position) *Report {
	v := &verifier{fs: fs, clusterID: clusterID, clusterFrom: superblockPath, positions: positions}
	v.topics()
	return &v.report
}

func (v *verifier) add(level Level, path string, offset int64, sequence uint64, what string) {
	v.report.Findings = append(v.report.Findings, Finding{Level: level, Path: path, Offset: offset, Sequence: sequence, What: what})
}

// addErr adds a decoder's error: a version that is too new is told as such.
func (v *verifier) addErr(level Level, path string, offset int64, sequence uint64, err error) {
	f := Finding{Level: level, Path: path, Offset: offset, Sequence: sequence, What: err.Error()}
	var newer *format.VersionError
	if errors.As(err, &newer) {
		newer.Path = path
		f.Level, f.What, f.TooNew = Damage, newer.Error(), newer.Version
		v.report.saw(newer.Magic, newer.Version)
	}
	v.report.Findings = append(v.report.Findings, f)
}

// list gives the directory's names in order. One that cannot be listed is
// damage.
func (v *verifier) list(dir string) []Entry {
	entries, err := v.fs.List(dir)
	if err != nil {
		v.add(Damage, dir, 0, 0, "cannot be listed: "+err.Error())
	}
	entries = slices.Clone(entries)
	slices.SortFunc(entries, func(a, b Entry) int { return cmp.Compare(a.Name, b.Name) })
	return entries
}

// isDir says that the data directory has a directory of this name.
func (v *verifier) isDir(name string) bool {
	return slices.ContainsFunc(v.list(""), func(e Entry) bool { return e.Dir && e.Name == name })
}

// open opens a file for a walk. One that cannot be opened is damage.
func (v *verifier) open(path string) *window {
	f, err := v.fs.Open(path)
	if err != nil {
		v.add(Damage, path, 0, 0, "cannot be opened: "+err.Error())
		return nil
	}
	v.report.Files++
	v.report.Bytes += f.Size()
	return &window{f: f}
}

// close ends the walk; a failed read in it is damage.
func (v *verifier) close(w *window, path string) {
	if w.err != nil {
		v.add(Damage, path, w.off, 0, "cannot be read: "+w.err.Error())
	}
	if err := w.f.Close(); err != nil {
		v.add(Note, path, 0, 0, "cannot be closed: "+err.Error())
	}
}

// cluster checks that a file belongs to the same cluster as the others; level is
// what it is if not.
func (v *verifier) cluster(level Level, path string, id [16]byte) bool {
	if v.clusterFrom == "" {
		v.clusterID, v.clusterFrom = id, path
	}
	if id != v.clusterID {
		v.add(level, path, 0, 0, "belongs to another cluster than "+v.clusterFrom)
		return false
	}
	return true
}

const superblockPath = "superblock.mmsb"

// superblock reads both slots. It reports whether one of them is whole.
func (v *verifier) superblock() bool {
	path, found := "", false
	for _, e := range v.list("") {
		switch {
		case e.Name == superblockPath && !e.Dir:
			path, found = superblockPath, true
		case e.Name == superblockPath+".tmp" && !e.Dir:
			v.add(Note, e.Name, 0, 0, "left by a first start that was cut off")
		}
	}
	if !found {
		level, what := Note, "there is none: the directory is fresh"
		if other := v.other(); other != "" {
			level, what = Damage, "the file is missing, though "+other+" is there"
		}
		v.add(level, superblockPath, 0, 0, what)
		return false
	}
	w := v.open(path)
	if w == nil {
		return false
	}
	defer v.close(w, path)
	var slots [2]format.Superblock
	var errs [2]error
	for i := range slots {
		b := w.need(int64(i)*format.SuperblockSlotSize, format.SuperblockSlotSize)
		slots[i], errs[i] = format.DecodeSuperblock(b, uint8(i))
		var newer *format.VersionError
		if errors.As(errs[i], &newer) {
			v.addErr(Damage, path, int64(i)*format.SuperblockSlotSize, 0, errs[i])
			return false
		}
	}
	if w.f.Size() != format.SuperblockSize {
		v.add(Note, path, w.f.Size(), 0, "the file has not the size of two slots")
	}
	return v.superblockSlots(path, slots, errs)
}

// other gives a name that tells a directory which has lost its superblock from a
// fresh one: anything but what a first start leaves that was cut off, which is
// empty directories and a first journal file without a header.
func (v *verifier) other() string {
	dirs := []string{"journal", format.MetadataDir, format.TopicsDir, format.CheckpointsDir}
	for len(dirs) > 0 {
		dir := dirs[0]
		dirs = dirs[1:]
		for _, e := range v.list(dir) {
			path := dir + "/" + e.Name
			switch {
			case e.Dir && path == format.QuarantineDir:
				dirs = append(dirs, path)
			case path != format.JournalName(1) || v.headed(path):
				return path
			}
		}
	}
	return ""
}

// headed says that the journal file at path has a whole header.
func (v *verifier) headed(path string) bool {
	w := v.open(path)
	if w == nil {
		return true
	}
	defer v.close(w, path)
	_, err := format.DecodeJournalHeader(w.need(0, format.JournalBlock))
	return err == nil
}

// superblockSlots takes the slot with the higher version.
func (v *verifier) superblockSlots(path string, slots [2]format.Superblock, errs [2]error) bool {
	best := 0
	switch {
	case errs[0] != nil && errs[1] != nil:
		v.add(Damage, path, 0, 0, "both slots are damaged")
		return false
	case errs[0] != nil:
		best = 1
		v.add(Note, path, 0, 0, "slot 0 is not whole; slot 1 is taken, and the next start writes slot 0 anew")
	case errs[1] != nil:
		v.add(Note, path, format.SuperblockSlotSize, 0, "slot 1 is not whole; slot 0 is taken, and the next start writes slot 1 anew")
	case slots[1].Version > slots[0].Version:
		best = 1
	}
	if errs[0] == nil && errs[1] == nil && slots[0].Version != slots[1].Version {
		v.add(Note, path, int64(1-best)*format.SuperblockSlotSize, 0, "the slot is older than the other: a change was under way")
	}
	v.report.saw(format.SuperblockMagic, 1)
	v.super = &slots[best]
	v.clusterID, v.clusterFrom = v.super.ClusterID, path
	return true
}
