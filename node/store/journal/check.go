package journal

import (
	"errors"
	"slices"

	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/fault"
	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/node/store/flight"
)

// Known is what the superblock says about the journal.
type Known struct {
	ClusterID [16]byte
	First     uint64 // the first file that is needed
	Current   uint64 // the newest file that is known to have got its header, 0 for none
	// The checkpoint: an entry that was flushed, and its hash.
	Checkpoint     op.Number
	CheckpointHash op.Hash
	// Entries above InstalledOp count only if they are of the epoch Installed.
	Installed   op.Epoch
	InstalledOp op.Number
}

// checker reads the journal to its end and judges it. It changes nothing.
type checker struct {
	cursor cursor
	flight flight.Flight
	known  Known

	step    checkStep
	at      int  // of files
	loose   bool // only marks count: the chain has ended
	ended   bool // by an entry of another epoch: not even marks count
	tip     op.Number
	tipHash op.Hash
	header  op.Header
	started bool // tip and tipHash are set
	mark    op.Number

	// Where the chain stopped: what comes next does not count.
	badPath string
	badAt   int64
	why     string
	torn    bool
}

// headless is what is wrong with a file that had a header and has none.
const headless = "the file's header is damaged"

// checkStep is what a checker is at.
type checkStep uint8

const (
	checkList checkStep = iota
	checkHeaders
	checkFiles
	checkClosing
	checkDone
)

// Check begins recovery: Checked, or Damage, or Refused follows.
func (j *Journal) Check(k Known) {
	if j.phase != phaseNew {
		panic("journal: Check of a journal that was begun")
	}
	j.phase, j.clusterID = phaseChecking, k.ClusterID
	j.checker.known, j.checker.step = k, checkList
	j.begun = k.Current
	j.checker.flight.Submit(&j.queue, disk.Request{Kind: disk.KindList, Lane: disk.LaneRead, Path: "journal"})
}

// checkListed sorts out the files by their numbers.
func (j *Journal) checkListed() {
	k := &j.checker
	if k.flight.Err != disk.OK {
		j.unreadable("journal", 0, k.known.Checkpoint+1, k.flight.Err)
		return
	}
	for _, e := range k.flight.Entries {
		number, ok := format.ParseJournalName(e.Name)
		switch {
		case !ok || e.Dir:
		case number < k.known.First:
			if e.Size == j.options.FileBytes {
				j.free = append(j.free, number)
			} else {
				j.retirer.remove = append(j.retirer.remove, number)
			}
		default:
			if e.Irregular {
				j.damaged(format.JournalName(number), 0, k.known.Checkpoint+1, disk.ErrNotRegular.String())
				return
			}
			j.files = append(j.files, file{number: number, size: e.Size})
		}
	}
	k.flight.Entries = nil
	slices.Sort(j.free)
	slices.SortFunc(j.files, func(a, b file) int { return int(int64(a.number) - int64(b.number)) })
	if len(j.files) == 0 {
		j.missing(k.known.First, k.known.Checkpoint+1)
		return
	}
	// A file is as long as it will ever be, durably, before anything is written
	// to it, and the superblock knows which ones have been written to.
	for i := range j.files {
		if f := &j.files[i]; f.number <= k.known.Current && f.size < j.options.FileBytes {
			j.damaged(f.path(), f.size, k.known.Checkpoint+1, "the file is cut short")
			return
		}
	}
	k.step, k.at = checkHeaders, 0
	k.cursor.open(j.files[0].number)
}

// missing ends recovery over a file that is not there.
func (j *Journal) missing(number uint64, entry op.Number) {
	j.damaged(format.JournalName(number), 0, entry, "the file is missing")
}

// checkGaps says whether all files are there from the newest one with a header
// on, up to the one that the superblock knows. Whether one is missing before that
// is for the chain of entries to say: a start lets go of files that it emptied.
func (j *Journal) checkGaps() bool {
	k := &j.checker
	expect, from := k.known.First, 0
	for i := range j.files {
		if f := &j.files[i]; f.headed {
			expect, from = f.number, i
		}
	}
	for i := from; i < len(j.files) && j.files[i].number == expect; i++ {
		expect++
	}
	if expect > max(k.known.Current, j.files[len(j.files)-1].number) {
		return true
	}
	j.missing(expect, k.known.Checkpoint+1)
	return false
}

// unreadable ends recovery over a file that cannot be read: it is damaged,
// unless the process has run out of something.
func (j *Journal) unreadable(path string, offset int64, number op.Number, err disk.Errno) {
	if err == disk.ErrIO || err == disk.ErrNotExist || err == disk.ErrNotRegular {
		j.damaged(path, offset, number, "cannot be read: "+err.String())
		return
	}
	j.fail(err, path)
}

// checkStep goes on checking.
func (j *Journal) checkStep() {
	k := &j.checker
	k.cursor.landed()
	for j.phase == phaseChecking {
		f := k.cursor.step()
		switch {
		case f == foundWait:
			return
		case f == foundFailed:
			j.unreadable(format.JournalName(k.cursor.number), k.cursor.pos, k.tip+1, k.cursor.errno)
		case k.step == checkHeaders:
			j.checkHeader(f)
		default:
			j.checkFile(f)
		}
	}
}

// checkHeader reads the headers of all files, one after another.
func (j *Journal) checkHeader(f found) {
	k := &j.checker
	file := &j.files[k.at]
	if f == foundOpened {
		file.size = k.cursor.Size
		h, err := format.DecodeJournalHeader(k.cursor.block)
		var newer *format.VersionError
		switch {
		case errors.As(err, &newer):
			j.phase = phaseFailed
			j.emit(Event{Kind: EventRefused, Path: file.path(), Version: newer.Version, What: "a format version that this binary does not know"})
			return
		case err == nil && h.ClusterID != k.known.ClusterID:
			j.phase = phaseFailed
			j.emit(Event{Kind: EventRefused, Path: file.path(), What: "a journal file of another cluster"})
			return
		case err == nil && h.File == file.number:
			file.headed, file.first, file.prevHash = true, h.First, h.PrevHash
		}
		k.cursor.close()
		return
	}
	if k.at++; k.at < len(j.files) {
		k.cursor.open(j.files[k.at].number)
		return
	}
	if !j.checkGaps() {
		return
	}
	j.setLimits()
	k.step, k.at = checkFiles, -1
	k.tip, k.tipHash = k.known.Checkpoint, k.known.CheckpointHash
	k.mark = k.known.Checkpoint
	k.badPath, k.why = j.files[0].path(), headless
	j.checkNext()
}

// setLimits gives each file the entry from which on newer files take over.
func (j *Journal) setLimits() {
	limit := op.Number(0)
	for i := len(j.files) - 1; i >= 0; i-- {
		f := &j.files[i]
		f.limit = limit
		if f.headed && (limit == 0 || f.first < limit) {
			limit = f.first
		}
	}
}

// checkNext opens the next file that has something to say, or ends the check.
func (j *Journal) checkNext() {
	k := &j.checker
	for k.at++; k.at < len(j.files); k.at++ {
		f := &j.files[k.at]
		if f.counts() && !k.ended {
			if !j.joins(f) {
				return
			}
			k.loose = false
			k.cursor.open(f.number)
			return
		}
		if !f.headed && f.limit == 0 {
			if f.number <= k.known.Current {
				j.damaged(f.path(), 0, k.tip+1, headless)
				return
			}
			k.loose = true
			k.cursor.open(f.number)
			return
		}
	}
	j.judge()
}

// joins checks that the chain so far reaches the first entry of f.
func (j *Journal) joins(f *file) bool {
	k := &j.checker
	switch {
	case !k.started && f.first > k.known.Checkpoint+1 && j.files[0].number > k.known.First:
		j.missing(k.known.First, k.known.Checkpoint+1)
		return false
	case !k.started && f.first > k.known.Checkpoint+1:
		j.damaged(f.path(), 0, k.known.Checkpoint+1, "entries before this file's first are missing")
		return false
	case !k.started:
		k.started, k.tip, k.tipHash = true, f.first-1, f.prevHash
		if k.tip == k.known.Checkpoint && k.tipHash != k.known.CheckpointHash {
			j.damaged(f.path(), 0, k.tip, "does not join the checkpoint")
			return false
		}
	case k.tip+1 != f.first && !k.torn && j.files[k.at-1].number+1 < f.number:
		j.missing(j.files[k.at-1].number+1, k.tip+1)
		return false
	case k.tip+1 != f.first:
		if before := &j.files[k.at-1]; !before.headed {
			k.badPath, k.badAt, k.why = before.path(), 0, headless
		}
		j.damaged(k.badPath, k.badAt, k.tip+1, k.why+", and "+f.path()+" goes on after it")
		return false
	case k.tipHash != f.prevHash:
		j.damaged(f.path(), 0, f.first, "the file does not join the one before it")
		return false
	}
	k.mark = max(k.mark, f.first-1)
	return true
}

// checkFile takes in one finding.
func (j *Journal) checkFile(f found) {
	k := &j.checker
	file := &j.files[k.at]
	switch f {
	case foundOpened:
		if k.loose {
			k.cursor.hunt(format.JournalBlock)
		} else {
			k.cursor.seek(format.JournalBlock, k.tip, k.tipHash)
			k.badPath, k.badAt, k.why, k.torn = file.path(), k.cursor.Size, "the file ends", false
		}
	case foundMark:
		j.checkWrite(file)
	case foundEntry:
		j.checkEntry(file)
	case foundBad:
		k.badAt, k.why, k.torn, k.loose = k.cursor.pos, k.cursor.why, k.cursor.torn, true
		switch {
		case file.limit != 0:
			k.cursor.close() // whether it matters is for the next file to say
		case k.cursor.mode == modeFrame:
			k.cursor.hunt(k.cursor.writeEnd())
		default:
			k.cursor.hunt(k.cursor.pos + format.JournalBlock)
		}
	case foundEnd:
		if k.cursor.mode == modeClosed {
			j.checkNext()
			return
		}
		k.cursor.close()
	}
}

// checkWrite takes in the prefix of a write.
func (j *Journal) checkWrite(file *file) {
	k := &j.checker
	w := &k.cursor.write
	if file.limit != 0 && (w.First >= file.limit || w.Mark >= file.limit) {
		k.cursor.close() // newer files took over
		return
	}
	if !file.headed {
		file.used = true
	}
	if !k.ended {
		k.mark = max(k.mark, w.Mark)
	}
	if k.loose {
		k.torn = k.torn || w.First > k.tip || w.Mark > k.tip
	} else if w.Entries > 0 {
		j.index.add(w.First, file.number, k.cursor.writeAt)
	}
}

// checkEntry takes in an entry that is intact and joins the chain.
func (j *Journal) checkEntry(file *file) {
	k := &j.checker
	h := &k.cursor.entry.Header
	if file.limit != 0 && h.Number >= file.limit {
		k.cursor.close()
		return
	}
	if h.Epoch > k.known.Installed {
		// An epoch is on both slots of the superblock before an entry of it is
		// written: this entry was synced, and it is the superblock that is old.
		j.damaged(file.path(), k.cursor.writeAt, h.Number, "the entry is of an epoch that the superblock does not know: the superblock went back")
		return
	}
	if h.Number > k.known.InstalledOp && h.Epoch != k.known.Installed {
		// A leftover of an epoch that was superseded before this node installed
		// it: it ends the journal, whatever was synced behind it.
		k.ended, k.loose, k.torn = true, true, true
		k.badAt, k.why = k.cursor.writeAt, "an entry of an epoch that was superseded"
		k.cursor.hunt(k.cursor.writeEnd())
		return
	}
	k.tip, k.tipHash, k.header = h.Number, k.cursor.tipHash, *h
	file.held = k.cursor.writeEnd() - format.JournalBlock
	if k.tip == k.known.Checkpoint && k.tipHash != k.known.CheckpointHash {
		j.damaged(file.path(), k.cursor.pos, k.tip, "the entry is not the one that the checkpoint names")
	}
}

// judge ends the check: what lies behind the chain's end is a torn tail, or it
// is damage.
func (j *Journal) judge() {
	k := &j.checker
	k.step = checkDone
	if (k.mark > k.tip && !k.ended || k.tip < k.known.Checkpoint) && !fault.On("hole_taken_as_tail") {
		if last := len(j.files) - 1; j.files[last].used && !k.torn {
			k.badPath, k.badAt, k.why = j.files[last].path(), 0, headless
		}
		j.damaged(k.badPath, k.badAt, k.tip+1, k.why+", but the entry was synced")
		return
	}
	k.mark = min(k.mark, k.tip)
	j.index.cut(k.tip + 1)
	j.phase = phaseChecked
	j.last, j.lastHash, j.header = k.tip, k.tipHash, k.header
	if k.torn {
		j.emit(Event{Kind: EventTornTail, Path: k.badPath, Offset: k.badAt, Number: k.tip + 1, What: k.why})
	}
	j.emit(Event{Kind: EventChecked, Number: k.tip, Hash: k.tipHash, Header: k.header})
}
