//go:build faults

package fault

import "testing"

// Goal: the canary: a planted bug is off until it is switched on.
func TestCanary(t *testing.T) {
	if On("canary") {
		t.Fatal("on before it was planted")
	}
	if err := Plant("canary"); err != nil {
		t.Fatal(err)
	}
	if !On("canary") {
		t.Fatal("planted and not on")
	}
}

// Goal: asking for a bug that nobody planted allocates nothing, whatever others
// are planted.
func TestOnAllocates(t *testing.T) {
	if err := Plant("another"); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() { On("nobody planted this") }); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}
