package journal

import (
	"slices"

	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/store/flight"
)

// retirer sets files free that no durable superblock needs any more: those of
// the right size wait to be renamed, the rest is removed.
type retirer struct {
	flight flight.Flight
	remove []uint64
}

// Retire lets go of the files below first, which a durable superblock names as
// the first that is needed: Retired follows.
func (j *Journal) Retire(first uint64) {
	if j.retirer.flight.Busy() || first > j.writer.file.number {
		panic("journal: Retire while another is under way, or of the current file")
	}
	r := &j.retirer
	n := 0
	for n < len(j.files) && j.files[n].number < first {
		j.release(&j.files[n])
		n++
	}
	j.files = slices.Delete(j.files, 0, n)
	j.index.drop(first)
	if !j.removeReleased(&r.flight) {
		j.emit(Event{Kind: EventRetired})
	}
}

// release sets a file free that holds nothing any more.
func (j *Journal) release(f *file) {
	if f.size == j.options.FileBytes {
		j.free = append(j.free, f.number)
	} else {
		j.retirer.remove = append(j.retirer.remove, f.number)
	}
}

// removeReleased removes what was set free and is not kept for reuse, and says
// whether there is something.
func (j *Journal) removeReleased(f *flight.Flight) bool {
	r := &j.retirer
	if n := j.options.FreeFiles; len(j.free) > n {
		r.remove = append(r.remove, j.free[n:]...)
		j.free = j.free[:n]
	}
	if len(r.remove) == 0 {
		return false
	}
	for _, number := range r.remove {
		f.Submit(&j.queue, disk.Request{Kind: disk.KindRemove, Lane: disk.LaneBackground, Path: format.JournalName(number)})
	}
	r.remove = r.remove[:0]
	f.Submit(&j.queue, disk.Request{Kind: disk.KindSyncDir, Lane: disk.LaneBackground, Path: "journal"})
	return true
}

// retireLanded ends it. A file that could not be removed is found again by the
// next recovery. A directory that could not be synced may have lost the name of a
// file that is in use.
func (j *Journal) retireLanded() {
	if r := &j.retirer; r.flight.SyncFailed() {
		j.fail(r.flight.Err, "journal")
		return
	}
	j.emit(Event{Kind: EventRetired})
}

// Fresh gives the requests' end of forming: the first file of a new directory
// is prepared and the journal runs, empty.
func (j *Journal) Fresh(clusterID [16]byte) {
	if j.phase != phaseNew {
		panic("journal: Fresh of a journal that was begun")
	}
	j.clusterID = clusterID
	j.phase = phaseRewriting
	j.preparer.number = 1
	j.prepareAgain()
}
