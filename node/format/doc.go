// Package format holds the encoders and decoders of every file of the data
// directory: pure functions from structs to bytes and back, a file per noun,
// with its table of offsets above the code. Store, verify, dump and the
// simulator read files through it and nothing else.
//
// The life of a byte: store encodes into a buffer of its own, the disk writes
// it, and after a crash store decodes it again; verify and dump do so without a
// broker. docs/formats.md lists every magic number and is changed before a new
// one is written.
//
// Invariants:
//
//  1. Encoders append to what they are given and allocate nothing else;
//     decoders borrow from what they are given and allocate nothing.
//  2. Decode(encode(x)) == x, and nothing that encode could not have written
//     decodes: fields that must be zero are zero, lengths add up, checksums
//     hold.
//  3. A decoder sizes nothing by a length that no checksum covers.
//  4. A version above the one that this binary writes is a *VersionError,
//     never taken for damage as long as the header's checksum holds.
//  5. Golden files in testdata pin the bytes: a test that needs them changed
//     has found an incompatible change.
//
// Integers are big-endian and checksums CRC-32C, unless a table says otherwise.
// It does no I/O and knows nothing of recovery.
package format
