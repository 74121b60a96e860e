package fault

import "testing"

// Goal: a mark counts on a recorder and costs nothing without one.
func TestMarks(t *testing.T) {
	var none *Marks
	none.Mark("x")
	m := NewMarks()
	m.Mark("x")
	m.Mark("x")
	total := map[string]uint64{"x": 1}
	m.AddTo(total)
	if none.Count("x") != 0 || m.Count("x") != 2 || total["x"] != 3 {
		t.Fatalf("%d %d %v", none.Count("x"), m.Count("x"), total)
	}
}
