// Package simnet is the simulator's network: hosts with names, byte streams between
// them, and everything that goes wrong on the way, in virtual time. A Host
// implements the contract of package net.
//
// The life of a connection: a dial sends a packet that makes the other end; what
// is sent waits in the sender's queue, moves into the stream's window as packets
// cut anywhere, arrives in order after its delay, lies in the receiver's buffer
// while that is paused or has read ahead too far, and becomes an event. A window
// is freed when its bytes are polled. The end of a stream, and a reset, travel
// behind the bytes.
//
// The life of a host: Host makes it, Crash ends its process or its machine, Restart
// brings up one that has neither connections nor listeners.
//
// Invariants:
//
//  1. Everything follows from the seed and the sequence of calls: no map is walked,
//     no clock is read, equal instants are ordered by when they were planned.
//  2. Packets of one direction of one connection arrive in the order in which they
//     were sent. Between connections nothing is ordered.
//  3. A cut loses nothing by itself: packets wait, as TCP repeats them, and arrive
//     some time after it is healed. Acknowledgements wait as well.
//  4. What arrives for an end that does not exist is answered with a reset, if the
//     host is up, and waits if its machine is down.
//  5. Bytes lent by Poll are overwritten in the next Poll: who kept them sees it.
//
// It does not model congestion, and a connection never times out by itself: the
// node's own heartbeats have to notice.
package simnet
