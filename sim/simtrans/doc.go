// Package simtrans runs the pure half of msgtrans (wire/msgtrans) in a simulated
// world: endpoints made of Stream, Codec and Pairing talk over the byte streams of
// sim/simnet, in virtual time, from one seed.
//
// # A run
//
// A seed draws how many endpoints there are, their limits and which kinds of fault
// are absent. Then there is a storm: the endpoints send requests and messages on
// every connection while the world cuts, slows and breaks what lies between them,
// kills processes, and makes endpoints misbehave (late, double, foreign and no
// answers, damaged packets, bombs, a death in mid-packet). After the storm faults are
// taken back and everybody is honest: every request has to be answered, then every
// connection is closed in order.
//
// # Properties
//
// The judge is told of every step by all endpoints and holds them against a model of
// its own. A run ends at the first violation, which has one of these names:
//
//  1. once: a request ends exactly once: answered, timed out, cancelled, rejected with
//     its connection, or with its process.
//  2. own: an answer is given to the request that it answers and to no other, across
//     reconnects too, where ids begin at 1 again; content is what was sent.
//  3. pairing: ids are those that the model expects: from 1, wrapping past 0 and past
//     what is pending; late, double and foreign answers are dropped and counted.
//  4. order: one-way messages of a connection arrive in order, once, none invented; all
//     of them when the connection ends in order.
//  5. damage: nothing behind a damaged packet is accepted, and its connection closes.
//  6. memory: buffers, tables and queues stay within what is stated.
//  7. time: a request is timed out when its deadline has come, neither before nor after.
//  8. life: when the storm is over, everything is answered within bounded virtual time.
//
// Determinism (the same seed, the same rolling hash over every effect) is for the
// caller to compare.
//
// # What it does not do
//
// It does not run package net/msgtrans, whose goroutines no seed can repeat: the
// endpoint here is a second, single-threaded driver of the same pure halves. It has no
// plans to shrink and no WebSocket, where there is nothing to cut.
package simtrans
