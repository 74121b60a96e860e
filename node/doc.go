// Package node is the broker: it puts replica, store, machine and session
// together and runs them in turns. It never blocks, starts no goroutine and
// reads no clock; a driver (node/host in production, sim in the simulator)
// feeds it inputs and carries out its effects.
//
// The life of a publish in here: bytes of a connection arrive as an input;
// session decodes PUB and proposes an op; replica encodes it into the batch
// that is being collected; at the end of the turn the batch goes to the store
// if no sync is in flight, as disk requests among the effects; the sync's
// completion is a later input, commit moves, the entry's ops are applied one by
// one, the record goes to its partition's tail, session writes the answer, and
// the bytes leave with the effects of that turn.
//
// The life of a node: New, a first turn that starts recovery, turns that replay
// checkpoint and journal into the machine, an epoch of its own, serving;
// InputStop drains it; a failed journal, damage to what it cannot do without,
// or the end of the drain sets Effects.Exit.
//
// The life of an operator's change (change.go): a query is taken in, what it
// needs to know is read, its ops are proposed under a ref of the node's own, and
// the query is answered when the last of them is applied.
//
// Invariants:
//
//  1. Turn is the only entry: the same inputs at the same readings give the
//     same effects, byte for byte.
//  2. The node is the only caller of Apply, in log order, each entry once.
//  3. An op's result goes to the one who proposed it: refs are queued in the
//     order of proposal, and ops of this node's epoch are applied in that order.
//  4. No client gets an answer that depends on an entry before that entry is
//     committed and flushed here.
//  5. After Effects.Exit is set nothing is sent or written any more.
//
// It holds no policy of a room below it, and no I/O.
package node
