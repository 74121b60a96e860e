package disk

import "unsafe"

// AlignedBuffer gives n bytes of zeroed memory whose address is a multiple of
// Alignment, as FlagDirect asks of every Buf. The capacity is n too, so that an
// append cannot leave the aligned memory unseen.
func AlignedBuffer(n int) []byte {
	if n == 0 {
		return nil
	}
	raw := make([]byte, n+Alignment-1)
	skip := 0
	if over := uintptr(unsafe.Pointer(&raw[0])) % Alignment; over != 0 {
		skip = int(Alignment - over)
	}
	return raw[skip : skip+n : skip+n]
}

// Aligned reports whether a request of b at offset keeps FlagDirect's promise.
func Aligned(b []byte, offset int64) bool {
	if offset%Alignment != 0 || len(b)%Alignment != 0 {
		return false
	}
	return len(b) == 0 || uintptr(unsafe.Pointer(&b[0]))%Alignment == 0
}
