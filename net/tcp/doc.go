// Package tcp is the real network over TCP, behind the contract of package net.
//
// The life of a connection: an accept loop or a dial makes it and posts Opened;
// its reader, one goroutine, waits in the poller without a buffer, takes a block
// from the pool when there is something to read and posts Bytes (and may
// do the poller's work for a while: Options.Arrived); Submit writes from its
// caller's goroutine what the socket takes at once and leaves the rest to a writer
// goroutine, which lives until the queue is empty and looks for movement while it
// waits; finish, called by whoever finds the end first, posts Closed and closes the
// socket.
//
// Invariants:
//
//  1. An idle connection holds a goroutine and no buffer. (A reader that did the
//     poller's work has the stack for that, some KiB, until the collector takes it.)
//  2. Sends to one connection in one Submit become one write, whatever lies
//     between them.
//  3. While a writer lives, everything goes through its queue: the caller never
//     waits for it. Only Submit starts writers.
//  4. Locks are taken in the order conn.mu, inbox.mu. Progress is posted under
//     conn.mu, so that its numbers come in the order in which they were true.
//  5. After Closed was posted (flow.ended) nothing of the
//     connection is.
//  6. A reader stops while more than ReadAheadBytes of its connection, or more
//     than the budget of its plane, is unpolled: no flood holds up another
//     connection for long, nor another plane at all.
//  7. Blocks lent to Poll's caller go back to the pool in the next Poll, with the one
//     that small reads share if nothing lies in it: what was polled twice in vain
//     holds none.
//
// Wake, or Arrived by a reader, is called when the inbox was empty and is not any
// more, and Wake by Poll when it leaves something behind.
//
// It does not limit what is queued for a slow reader: Progress tells the
// submitter, who decides.
package tcp
