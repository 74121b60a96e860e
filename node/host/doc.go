// Package host is the production driver of a node: the only place near it with
// goroutines. It holds no policy.
//
// The life of a host: Open takes the port and then the data directory's lock, Run
// loops - wait for something to have happened, gather it, Turn, carry the
// effects out - until the node exits or the context ends, Close gives
// everything back. Connections are accepted from when the node serves to when it
// is asked to stop. What a turn asks for is carried out in this order: answers
// and bytes first, because they wait for nothing, then disk requests; a small
// journal write whose lane is idle is carried out on the loop itself, which
// saves two hand-offs between threads while nothing else could be done anyway
// (what arrives meanwhile is collected by the readers and makes the next batch).
// When that takes long the loop goes on without it (inline.go), and while the disk
// is slow its worker gets the batches: a disk that stalls holds up what waits for
// it, and nothing else. A reader whose bytes find the loop waiting takes the turn
// itself, with the journal write that it asks for and the turn that answers, which
// saves two more (baton.go).
//
// Invariants:
//
//  1. Only who has the baton calls Turn, and nobody who has it blocks but, for at
//     most two periods of the watchdog, in an inline journal write.
//  2. Completions and events are never refused; clients beyond the byte budget
//     are not read (net/tcp).
//  3. After Close no goroutine of the host is left.
package host
