package journal

import (
	"sort"

	"github.com/mortarmq/mortarmq/node/op"
)

// ref says where a write begins.
type ref struct {
	first op.Number // of the entries in it
	at    int64
	file  uint64
}

// index finds the write that holds an entry. Refs are in order of first.
type index struct{ refs []ref }

func (x *index) add(first op.Number, file uint64, at int64) {
	x.refs = append(x.refs, ref{first, at, file})
}

// cut drops the writes from the entry number on. A write that it falls into
// stays: what is above is cut off by the limit of its file.
func (x *index) cut(number op.Number) {
	n := sort.Search(len(x.refs), func(i int) bool { return x.refs[i].first >= number })
	x.refs = x.refs[:n]
}

// drop forgets the files below file.
func (x *index) drop(file uint64) {
	n := sort.Search(len(x.refs), func(i int) bool { return x.refs[i].file >= file })
	x.refs = x.refs[:copy(x.refs, x.refs[n:])]
}

// find gives the write that holds the entry number, if one does.
func (x *index) find(number op.Number) (r ref, ok bool) {
	n := sort.Search(len(x.refs), func(i int) bool { return x.refs[i].first > number })
	if n == 0 {
		return r, false
	}
	return x.refs[n-1], true
}
