package disk

import (
	"testing"
	"unsafe"
)

// Goal: every outcome and kind has a name of its own, so that a log line never
// shows a bare number.
func TestNames(t *testing.T) {
	for e := OK; e <= ErrTooManyFiles; e++ {
		if int(e) >= len(errnoNames) || errnoNames[e] == "" {
			t.Errorf("errno %d has no name", e)
		}
	}
	for k := KindInvalid; k <= KindSpace; k++ {
		if int(k) >= len(kindNames) || kindNames[k] == "" {
			t.Errorf("kind %d has no name", k)
		}
	}
	if OK.Err() != nil || ErrIO.Err() != error(ErrIO) {
		t.Error("Err: OK must be nil and every other outcome itself")
	}
}

// Goal: aligned memory is aligned whatever its size, and not one byte longer.
func TestAlignedBuffer(t *testing.T) {
	for _, n := range []int{1, 511, 4096, 4097, 1 << 20} {
		b := AlignedBuffer(n)
		if len(b) != n || cap(b) != n || uintptr(unsafe.Pointer(&b[0]))%Alignment != 0 {
			t.Errorf("AlignedBuffer(%d): len %d cap %d address %p", n, len(b), cap(b), &b[0])
		}
	}
	if AlignedBuffer(0) != nil {
		t.Error("AlignedBuffer(0) is not nil")
	}
}

// Goal: only paths that cannot leave the root are accepted.
func TestValidPath(t *testing.T) {
	for _, p := range []string{"a", "a/b", "a.b/c-d", "..a", "a.."} {
		if !ValidPath(p) {
			t.Errorf("%q refused", p)
		}
	}
	for _, p := range []string{"", "/", "/a", "a/", "a//b", ".", "..", "a/..", "../a", "./a", "a\x00b"} {
		if ValidPath(p) {
			t.Errorf("%q accepted", p)
		}
	}
	if Parent("a/b/c") != "a/b" || Parent("a") != "" {
		t.Error("Parent")
	}
}
