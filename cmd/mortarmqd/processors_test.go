package main

import "testing"

// Goal: a container's limit on processors is not lifted to those of the machine,
// and an operator's own number stands.
func TestProcessors(t *testing.T) {
	if n := processors(2, ""); n != 3 {
		t.Errorf("a limit of 2 gave %d", n)
	}
	if n := processors(1, "1"); n != 1 {
		t.Errorf("GOMAXPROCS=1 gave %d", n)
	}
}
