package verify

import "strconv"

// Level ranks findings.
type Level uint8

// The levels.
const (
	// Note is what a crash leaves and the broker mends by itself.
	Note Level = iota
	// Damage is what it cannot mend without another copy.
	Damage
)

func (l Level) String() string {
	if l == Damage {
		return "damage"
	}
	return "note"
}

// Finding is one place that is not as it should be.
type Finding struct {
	Level Level
	Path  string
	// Offset in the file, in bytes.
	Offset int64
	// Sequence of the record that is hit in a segment or index, number of the
	// entry in the journal, of the record in the metadata log; 0 for none.
	Sequence uint64
	What     string
	// TooNew is the version of a file that a newer binary wrote; 0 otherwise.
	TooNew uint8
}

func (f Finding) String() string {
	s := f.Level.String() + " " + f.Path + " offset " + strconv.FormatInt(f.Offset, 10)
	if f.Sequence > 0 {
		s += " sequence " + strconv.FormatUint(f.Sequence, 10)
	}
	return s + ": " + f.What
}

// Report is what a check found.
type Report struct {
	Findings []Finding
	Files    int64
	Bytes    int64
	Records  int64 // in segments
	Entries  int64 // in the journal
	// Versions are the highest format version met of each kind of file, by magic
	// number: what a downgrade has to be able to read.
	Versions []Version
}

// Version is a format version of one kind of file.
type Version struct {
	Magic   string
	Version uint8
}

// Damaged says whether anything is damaged.
func (r *Report) Damaged() bool {
	for i := range r.Findings {
		if r.Findings[i].Level == Damage {
			return true
		}
	}
	return false
}

// NotReadableBy gives the kinds of file that a binary which reads formats up to
// version could not read.
func (r *Report) NotReadableBy(version uint8) []Version {
	var bad []Version
	for _, v := range r.Versions {
		if v.Version > version {
			bad = append(bad, v)
		}
	}
	return bad
}

// saw notes the version of a file.
func (r *Report) saw(magic string, version uint8) {
	for i := range r.Versions {
		if v := &r.Versions[i]; v.Magic == magic {
			v.Version = max(v.Version, version)
			return
		}
	}
	r.Versions = append(r.Versions, Version{magic, version})
}
