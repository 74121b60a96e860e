// Package simdisk is the simulator's disk: a tree of files in memory with a page
// cache in front of what is durable, driven by virtual time. It implements the
// contract of package disk, and in a crash it takes every liberty that the
// contract leaves open.
//
// The life of a byte: a Write puts it into the cache when its completion is due
// (not when it is submitted). There it is dirty, per sector of 512 bytes. A Sync
// makes it clean, which is to say durable. A power loss before that keeps or
// loses each dirty sector on its own. The life of a name is the same with
// SyncDir in place of Sync: creates, renames, removes and mkdirs wait in order
// and are kept or lost each.
//
// The life of a disk: New, then Submit, Advance and Poll by one driver; Crash
// when the node dies, which drops the handles and everything under way; Restart
// when it comes back. The same Disk outlives all lives of its node.
//
// Invariants:
//
//  1. What a Sync or SyncDir that told the truth covered survives every crash
//     (rot, a lost file and the like excepted: they are asked for by name).
//  2. A sector, and a rename, happens as a whole or not at all; after a power
//     loss each name is at one of the versions it had since its directory was
//     last synced, never at an older or an invented one.
//  3. After a crash nothing that was under way completes; of an ordered lane a
//     prefix of it was carried out, and of the request after that a part.
//  4. Everything follows from the seed and the sequence of calls: no map is
//     walked, no clock is read, equal instants are ordered by submission.
//  5. A sync that failed makes its dirty sectors stale: the cache shows them,
//     no later sync writes them, a power loss draws which are there.
//  6. A clone shares no future with its original.
//
// It does not judge: what may be lost is the checker's business, which asks
// Durable, ReadDurable and Certain.
package simdisk
