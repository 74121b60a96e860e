package clock

import "testing"

// Goal: adding to an instant saturates at Never instead of wrapping into the past.
func TestAddSaturates(t *testing.T) {
	if got := Instant(Never - 1).Add(Second); got != Never {
		t.Fatalf("got %d, want Never", got)
	}
	if got := Instant(5).Add(-3); got != 2 {
		t.Fatalf("got %d, want 2", got)
	}
}
