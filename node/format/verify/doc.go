// Package verify checks the data directory of a stopped broker, every file of
// it, and prints any of its files as text. It reads through a small interface,
// so the same code serves the command line and the simulator's disks. It
// changes nothing.
//
// The order of a check is that of recovery: the superblock says which journal
// files, which metadata and which checkpoint count; the log checkpoint says up
// to where each partition has to be whole. What is needed and not whole is
// Damage. What a crash leaves behind and recovery cuts off, removes or makes
// anew - a torn tail, files later than the checkpoint, an index - is a Note.
//
// Invariants:
//
//  1. A directory that recovery takes without complaint has no Damage here, and
//     one that it refuses, or of which it cannot serve all, has.
//  2. Every file is named with its offset and, where there is one, the sequence
//     or number of what is hit.
//  3. Memory is bounded by the largest record, block and index, whatever the
//     files say.
//
// It does not know what an op or a checkpoint's piece means, and repairs
// nothing.
package verify
