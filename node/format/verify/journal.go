package verify

import (
	"encoding/binary"
	"slices"

	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/op"
)

// headless is what is wrong with a file that had a header and has none.
const headless = "the file's header is damaged"

// journalFile is what the headers say of one file. From limit on newer files
// take over; 0 for none.
type journalFile struct {
	number   uint64
	size     int64
	headed   bool
	first    op.Number
	prevHash op.Hash
	limit    op.Number
	used     bool // without a header, but something was written to it
}

func (f *journalFile) path() string { return format.JournalName(f.number) }

func (f *journalFile) counts() bool { return f.headed && (f.limit == 0 || f.first < f.limit) }

// journalCheck walks along the chain of entries over all files, by the same
// rules as node/store/journal (doc.go there), and judges where it ends.
type journalCheck struct {
	v       *verifier
	files   []journalFile
	started bool // tip and tipHash are set
	ended   bool // by an entry of a superseded epoch: nothing behind it counts
	tip     op.Number
	tipHash op.Hash
	mark    op.Number // the highest entry that something says was synced

	// Where the chain stopped.
	badPath string
	badAt   int64
	why     string
	torn    bool
}

// journal checks all files from the first that the superblock needs.
func (v *verifier) journal() {
	j := &journalCheck{v: v, tip: v.super.CheckpointOp, tipHash: v.super.CheckpointHash, mark: v.super.CheckpointOp}
	for _, e := range v.list("journal") {
		if number, ok := format.ParseJournalName(e.Name); ok && !e.Dir && number >= v.super.JournalFirst {
			if e.Irregular {
				v.add(Damage, format.JournalName(number), 0, uint64(j.tip)+1, notRegular)
				return
			}
			j.files = append(j.files, journalFile{number: number, size: e.Size})
		}
	}
	slices.SortFunc(j.files, func(a, b journalFile) int {
		if a.number < b.number {
			return -1
		}
		return 1
	})
	if len(j.files) == 0 {
		j.missing(v.super.JournalFirst)
		return
	}
	// A file is as long as it will ever be, durably, before anything is written to
	// it, and the superblock knows which ones have been written to.
	for i := range j.files {
		if f := &j.files[i]; f.number <= v.super.JournalCurrent && f.size < v.options.JournalFileBytes {
			v.add(Damage, f.path(), f.size, uint64(j.tip)+1, "the file is cut short")
			return
		}
	}
	if !j.headers() || !j.gaps() {
		return
	}
	j.badPath, j.why = j.files[0].path(), headless
	for i := range j.files {
		f := &j.files[i]
		switch {
		case f.counts() && !j.ended:
			if !j.joins(i) || !j.walk(f, false) {
				return
			}
		case !f.headed && f.limit == 0 && f.number <= v.super.JournalCurrent:
			j.damage(f.path(), 0, j.tip+1, headless)
			return
		case !f.headed && f.limit == 0:
			if !j.walk(f, true) {
				return
			}
		}
	}
	j.judge()
}

// headers reads the headers of all files.
func (j *journalCheck) headers() bool {
	limit := op.Number(0)
	for i := len(j.files) - 1; i >= 0; i-- {
		f := &j.files[i]
		w := j.v.open(f.path())
		if w == nil {
			return false
		}
		h, err := format.DecodeJournalHeader(w.need(0, format.JournalBlock))
		j.v.close(w, f.path())
		switch {
		case w.err != nil:
			return false
		case err == nil && !j.v.cluster(Damage, f.path(), h.ClusterID):
			return false
		case err == nil && h.File == f.number:
			j.v.report.saw(format.JournalMagic, 1)
			f.headed, f.first, f.prevHash = true, h.First, h.PrevHash
		case err != nil && err != format.ErrJournal:
			j.v.addErr(Damage, f.path(), 0, 0, err)
			return false
		}
		f.limit = limit
		if f.headed && (limit == 0 || f.first < limit) {
			limit = f.first
		}
	}
	return true
}

// gaps says whether all files are there from the newest one with a header on, up
// to the one that the superblock knows. Whether one is missing before that is for
// the chain of entries to say: a start lets go of files that it emptied.
func (j *journalCheck) gaps() bool {
	expect, from := j.v.super.JournalFirst, 0
	for i := range j.files {
		if f := &j.files[i]; f.headed {
			expect, from = f.number, i
		}
	}
	for i := from; i < len(j.files) && j.files[i].number == expect; i++ {
		expect++
	}
	return expect > max(j.v.super.JournalCurrent, j.files[len(j.files)-1].number) || j.missing(expect)
}

func (j *journalCheck) missing(number uint64) bool {
	return j.damage(format.JournalName(number), 0, j.tip+1, "the file is missing")
}

func (j *journalCheck) damage(path string, offset int64, number op.Number, what string) bool {
	j.v.add(Damage, path, offset, uint64(number), what)
	return false
}

// joins checks that the chain so far reaches the first entry of the file i.
func (j *journalCheck) joins(i int) bool {
	f, super := &j.files[i], j.v.super
	switch {
	case !j.started && f.first > super.CheckpointOp+1 && j.files[0].number > super.JournalFirst:
		return j.missing(super.JournalFirst)
	case !j.started && f.first > super.CheckpointOp+1:
		return j.damage(f.path(), 0, super.CheckpointOp+1, "entries before this file's first are missing")
	case !j.started:
		j.started, j.tip, j.tipHash = true, f.first-1, f.prevHash
		if j.tip == super.CheckpointOp && j.tipHash != super.CheckpointHash {
			return j.damage(f.path(), 0, j.tip, "does not join the checkpoint")
		}
	case j.tip+1 != f.first && !j.torn && j.files[i-1].number+1 < f.number:
		return j.missing(j.files[i-1].number + 1)
	case j.tip+1 != f.first:
		if before := &j.files[i-1]; !before.headed {
			j.badPath, j.badAt, j.why = before.path(), 0, headless
		}
		return j.damage(j.badPath, j.badAt, j.tip+1, j.why+", and "+f.path()+" goes on after it")
	case j.tipHash != f.prevHash:
		return j.damage(f.path(), 0, f.first, "the file does not join the one before it")
	}
	j.mark = max(j.mark, f.first-1)
	return true
}

func (j *journalCheck) bad(f *journalFile, at int64, why string, torn bool) {
	j.badPath, j.badAt, j.why, j.torn = f.path(), at, why, torn
}

// walk goes through the writes of a file. Once the chain has ended (loose), only
// marks count. It is false when the check is over.
func (j *journalCheck) walk(f *journalFile, loose bool) bool {
	w := j.v.open(f.path())
	if w == nil {
		return false
	}
	defer j.v.close(w, f.path())
	seed := format.JournalSeed(j.v.clusterID, f.number)
	if !loose {
		j.bad(f, w.f.Size(), "the file ends", false)
	}
	for pos := int64(format.JournalBlock); ; {
		b := w.need(pos, op.WritePrefix)
		if len(b) == 0 {
			return w.err == nil
		}
		write, err := format.DecodeJournalWrite(b, seed)
		if err == nil && !loose && write.Entries > 0 && write.First != j.tip+1 {
			err = format.ErrJournal
			j.bad(f, pos, "a write does not follow the entry before it", true)
		} else if err != nil && !loose {
			torn := len(b) >= 16 && string(b[:4]) == format.JournalWriteMagic && binary.BigEndian.Uint64(b[8:]) == f.number
			why := "no write begins here"
			if torn {
				why = "the prefix of a write is torn"
			}
			j.bad(f, pos, why, torn)
		}
		if err != nil {
			if !loose && f.limit != 0 {
				return true // whether it matters is for the next file to say
			}
			loose = true
			pos += format.JournalBlock
			continue
		}
		if f.limit != 0 && (write.First >= f.limit || write.Mark >= f.limit) {
			return true // newer files took over
		}
		j.marked(f, &write, loose)
		next := (pos + int64(write.Bytes) + format.JournalBlock - 1) &^ (format.JournalBlock - 1)
		if !loose && write.Entries > 0 {
			switch j.entries(w, f, pos, &write, seed) {
			case walkStop:
				return true
			case walkOver:
				return false
			case walkBad:
				if f.limit != 0 && !j.ended {
					return true
				}
				loose = true
			}
		}
		pos = next
	}
}

func (j *journalCheck) marked(f *journalFile, w *format.JournalWrite, loose bool) {
	if !f.headed {
		f.used = true
	}
	if !j.ended {
		j.mark = max(j.mark, w.Mark)
	}
	if loose {
		j.torn = j.torn || w.First > j.tip || w.Mark > j.tip
	}
}

// What a walk over the entries of a write came to.
const (
	walkGood = iota
	walkBad  // the chain stops
	walkStop // newer files took over
	walkOver // damage was found
)

// entries walks over the entries of the write at pos.
func (j *journalCheck) entries(w *window, f *journalFile, pos int64, write *format.JournalWrite, seed uint32) int {
	end := pos + int64(write.Bytes)
	pos += op.WritePrefix
	for range write.Entries {
		h, size, err := format.DecodeFrame(w.need(pos, format.FrameOverhead), seed)
		why := ""
		switch {
		case err != nil:
			why = "an entry's header is damaged"
		case pos+int64(size) > end:
			why = "an entry is longer than its write"
		case h.Number != j.tip+1 || h.PrevHash != j.tipHash:
			why = "an entry does not join the one before it"
		default:
			if b := w.need(pos, size); len(b) < size || !h.CheckBody(b[format.FrameOverhead:]) {
				why = "an entry's body is damaged"
			} else if s := j.entry(f, pos, b, &h); s != walkGood {
				return s
			}
		}
		if why != "" {
			j.bad(f, pos, why, true)
			return walkBad
		}
		pos += int64(size)
	}
	return walkGood
}

// entry takes in an entry that is intact and joins the chain.
func (j *journalCheck) entry(f *journalFile, pos int64, frame []byte, h *op.Header) int {
	super := j.v.super
	switch {
	case f.limit != 0 && h.Number >= f.limit:
		return walkStop
	case h.Epoch > super.Installed:
		j.damage(f.path(), pos, h.Number, "the entry is of an epoch that the superblock does not know: the superblock went back")
		return walkOver
	case h.Number > super.InstalledOp && h.Epoch != super.Installed:
		j.ended = true
		j.bad(f, pos, "an entry of an epoch that was superseded", true)
		return walkBad
	}
	j.tip, j.tipHash = h.Number, op.HashHeader(frame[op.FramePrefix:])
	j.v.report.Entries++
	if j.tip == super.CheckpointOp && j.tipHash != super.CheckpointHash {
		j.damage(f.path(), pos, j.tip, "the entry is not the one that the checkpoint names")
		return walkOver
	}
	e := op.Entry{Header: *h, Raw: frame[op.FramePrefix:format.FrameOverhead], Body: frame[format.FrameOverhead:]}
	var o op.Op
	if err := e.Each(&o, func(int) error { return nil }); err != nil {
		j.damage(f.path(), pos, h.Number, "the entry's ops do not decode, though its checksum holds")
		return walkOver
	}
	return walkGood
}

// judge says whether the chain's end is damage or a torn tail.
func (j *journalCheck) judge() {
	j.v.marked = j.mark
	if j.mark > j.tip && !j.ended || j.tip < j.v.super.CheckpointOp {
		if last := &j.files[len(j.files)-1]; last.used && !j.torn {
			j.badPath, j.badAt, j.why = last.path(), 0, headless
		}
		j.damage(j.badPath, j.badAt, j.tip+1, j.why+", but the entry was synced")
		return
	}
	if j.torn {
		j.v.add(Note, j.badPath, j.badAt, uint64(j.tip)+1, "torn tail: "+j.why)
	}
}
