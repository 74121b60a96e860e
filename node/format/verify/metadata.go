package verify

import (
	"hash/crc32"
	"slices"

	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/op"
)

// metadata checks the snapshot that the superblock names and the log from there
// on.
func (v *verifier) metadata() {
	if v.super.CheckpointOp > 0 && !v.isDir(format.MetadataDir) {
		v.add(Damage, format.MetadataDir, 0, 0, "the directory is missing")
		return
	}
	var files []uint64
	named, snapshot := format.SnapshotName(v.super.SnapshotRecords, v.super.SnapshotEpoch), v.super.SnapshotRecords == 0
	for _, e := range v.list(format.MetadataDir) {
		path := format.MetadataDir + "/" + e.Name
		if offset, ok := format.ParseMetadataName(e.Name); ok && !e.Dir {
			files = append(files, offset)
		} else if _, _, ok := format.ParseSnapshotName(e.Name); ok && !e.Dir {
			if path == named && v.super.SnapshotRecords > 0 {
				snapshot = true
				v.snapshot(path)
			}
		} else if path == format.QuarantineDir {
			for _, q := range v.list(path) {
				v.add(Note, path+"/"+q.Name, 0, 0, "was set aside as damaged; the broker never reads it again")
			}
		} else {
			v.add(Note, path, 0, 0, "is not a file of the broker")
		}
	}
	if !snapshot {
		v.add(Damage, named, 0, v.super.SnapshotRecords, "the file is missing")
	}
	slices.Sort(files)
	for len(files) > 1 && files[1] <= v.super.SnapshotRecords {
		files = files[1:] // only what the snapshot stands for; waits to be removed
	}
	next := v.super.SnapshotRecords
	for i, offset := range files {
		if offset > next && next < v.logNeeded() {
			v.add(Damage, format.MetadataName(next), 0, next, "records up to "+format.MetadataName(offset)+" are missing")
			return
		}
		if i == 0 {
			next = offset
		}
		if offset != next {
			v.add(Note, format.MetadataName(offset), 0, offset, "later than the checkpoint, and does not follow: the next start removes it")
			return
		}
		var whole bool
		if next, whole = v.metadataFile(offset); !whole {
			return
		}
	}
	if next < v.logNeeded() {
		v.add(Damage, format.MetadataName(next), 0, next, "records up to the checkpoint are missing")
	}
}

// logNeeded gives the number of the record up to which the log is read at a
// start: none of it if the snapshot stands for all.
func (v *verifier) logNeeded() uint64 {
	if v.super.SnapshotRecords == v.super.MetadataRecords {
		return 0
	}
	return v.super.MetadataRecords
}

// snapshot checks a snapshot whole.
func (v *verifier) snapshot(path string) {
	w := v.open(path)
	if w == nil {
		return
	}
	defer v.close(w, path)
	h, err := format.DecodeSnapshotHeader(w.need(0, format.MetadataHeaderSize))
	if err != nil {
		v.addErr(Damage, path, 0, v.super.SnapshotRecords, err)
		return
	}
	v.report.saw(format.SnapshotMagic, 1)
	if !v.cluster(Damage, path, h.ClusterID) {
		return
	}
	if h.Offset != v.super.SnapshotRecords || h.Epoch != v.super.SnapshotEpoch || int64(h.Length)+format.MetadataHeaderSize != w.f.Size() {
		v.add(Damage, path, 0, h.Offset, "the header contradicts the file's name or length")
		return
	}
	sum := uint32(0)
	for at, end := int64(format.MetadataHeaderSize), w.f.Size(); at < end; {
		b := w.need(at, int(min(chunkBytes, end-at)))
		if len(b) == 0 {
			return
		}
		sum = crc32.Update(sum, op.Castagnoli, b)
		at += int64(len(b))
	}
	if sum != h.CRC {
		v.add(Damage, path, format.MetadataHeaderSize, h.Offset, "the data's checksum does not match")
	}
}

// metadataFile checks one file of the log. It gives the number of the record
// behind its last, and whether the file is whole.
func (v *verifier) metadataFile(offset uint64) (next uint64, whole bool) {
	path := format.MetadataName(offset)
	next = offset
	w := v.open(path)
	if w == nil {
		return next, false
	}
	defer v.close(w, path)
	level := func() Level {
		if next < v.logNeeded() {
			return Damage
		}
		return Note
	}
	h, err := format.DecodeMetadataHeader(w.need(0, format.MetadataHeaderSize))
	if err != nil {
		v.addErr(level(), path, 0, next, err)
		return next, false
	}
	v.report.saw(format.MetadataMagic, 1)
	if !v.cluster(level(), path, h.ClusterID) {
		return next, false
	}
	if h.Offset != offset {
		v.add(level(), path, 0, next, "the header contradicts the file's name")
		return next, false
	}
	for at := int64(format.MetadataHeaderSize); at < w.f.Size(); next++ {
		size, err := format.MetadataRecordSize(w.need(at, 4))
		var r format.MetadataRecord
		if err == nil {
			r, _, err = format.DecodeMetadataRecord(w.need(at, size))
		}
		what := ""
		var o op.Op
		switch {
		case err != nil:
			what = err.Error()
		case r.Offset != next:
			what = "a record's number jumps"
		default:
			if rest, err := o.Decode(r.Op); err != nil || len(rest) > 0 || !o.Kind.Metadata() {
				what = "a record's op does not decode, though its checksum holds"
			}
		}
		if what != "" {
			if level() == Note {
				what = "torn tail behind the checkpoint: " + what
			}
			v.add(level(), path, at, next, what)
			return next, false
		}
		at += int64(size)
	}
	return next, true
}
