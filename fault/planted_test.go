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
