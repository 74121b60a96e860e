// Package fault marks the places where a wrong variant of the broker can be
// switched on (planted bugs) and the states worth reaching (marks).
//
// In a plain build On is a constant false and the compiler removes the branch;
// no such binary links the failpoint library, which would open a control port
// for an environment variable. Under the build tag "faults" On asks failpoint.
//
// Marks count how often a run came by a named state ("sometimes" in
// simulation.md). They are cheap enough to stay on, but only a recorder that
// somebody installed counts them; a broker in production has none.
//
// Invariants:
//
//  1. A plain build behaves as if every On were false: nothing that a plain run
//     needs stands behind one.
//  2. A mark decides nothing.
package fault

// Mark notes that the state called name was reached. m may be nil.
func (m *Marks) Mark(name string) {
	if m != nil {
		m.counts[name]++
	}
}

// Marks counts the states that were reached in one run. It belongs to one
// goroutine.
type Marks struct {
	counts map[string]uint64
}

// NewMarks gives a recorder with nothing counted.
func NewMarks() *Marks { return &Marks{counts: map[string]uint64{}} }

// Count says how often name was marked.
func (m *Marks) Count(name string) uint64 {
	if m == nil {
		return 0
	}
	return m.counts[name]
}

// AddTo adds every count to total.
func (m *Marks) AddTo(total map[string]uint64) {
	for name, n := range m.counts { // order-free: sums
		total[name] += n
	}
}
