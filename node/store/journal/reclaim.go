package journal

import "github.com/mortarmq/mortarmq/node/op"

// lastCounting gives the newest file that counts.
func (j *Journal) lastCounting() *file {
	for i := len(j.files) - 1; i >= 0; i-- {
		if j.files[i].counts() {
			return &j.files[i]
		}
	}
	return nil
}

// copyFrom gives the first entry that a start copies into the new file: what
// lies behind the last mark, and the newest files, whole, as long as what they
// hold fits into half a file.
func (j *Journal) copyFrom() op.Number {
	from, room := j.rewriter.mark+1, j.options.FileBytes/2
	for i := len(j.files) - 1; i >= 0; i-- {
		f := &j.files[i]
		if !f.counts() {
			continue
		}
		if room -= f.held; room < 0 {
			break
		}
		from = min(from, f.first)
	}
	return from
}

// needless says whether newer headers took all that f may have held. Headless
// files at the top are not: they are yet to be used.
func (j *Journal) needless(f *file) bool { return f.limit != 0 && !f.counts() }

// holdsNeedless says whether there is a file that is needless.
func (j *Journal) holdsNeedless() bool {
	for i := range j.files {
		if j.needless(&j.files[i]) {
			return true
		}
	}
	return false
}

// reclaim lets go of needless files. The header that made them so is synced.
func (j *Journal) reclaim() {
	kept := j.files[:0]
	for i := range j.files {
		if f := &j.files[i]; j.needless(f) {
			j.release(f)
		} else {
			kept = append(kept, *f)
		}
	}
	j.files = kept
}
