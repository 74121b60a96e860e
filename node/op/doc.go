// Package op is what the replicated log is made of: op kinds, batches, entries
// and the number types that must not be mixed.
//
// The life of an op: the leader's session fills an Op from a request (or a
// timer), Builder.Add encodes it at once into the batch that is being
// collected, the batch becomes an Entry when the next journal write starts, the
// entry is flushed, committed, and each of its ops is decoded again - borrowing
// from the entry's bytes - and applied, in order, by the same pure code on
// every node.
//
// An entry is one op of any legal size or a batch of up to BatchBytesMax. Its
// header carries (cluster.md, "The log") op number, the leader epoch that first
// wrote it, the hash of the entry before it, the leader's commit when it was
// written, log time, body length and CRC-32C of the body. Its hash is the first
// 16 bytes of SHA-256 of the header, so entries form one chain and a body is
// summed once.
//
// Invariants:
//
//  1. Numbers count entries from 1 without a gap; an entry has at least one op.
//  2. PrevHash is the hash of the entry numbered one below, zero for entry 1.
//  3. LogTime never falls along the chain.
//  4. Decode(Append(o)) == o, and nothing else decodes: fields that must be
//     zero are zero, lengths add up.
//
// It does not know what an op means, nor where a batch is written.
package op
