// Package session is the leader's volatile half: connections, authentication,
// requests in order, credit, leases, long polls and notices. It reads the
// replicated state through the machine and changes it only by proposing ops.
//
// # The life of a connection
//
// EventOpened takes a slot of the slab (or refuses: max_connections, stop). Until
// CONNECT succeeds one frame of 66 KiB is the most that is taken in, PING is
// answered, and the clock of AUTH_TIMEOUT runs. A wrong token is held for 100 ms
// and then answered. From then on each frame becomes a request: it is judged
// by the machine's state, answered at once if that decides it for good, or
// proposed as an op that remembers connection and request in its Ref. A request
// takes a place in the connection's ring when it is read and leaves it when its
// answer is written; answers are written in that order, whatever order the
// outcomes come in. DECLARE, SUB and LEAVE hold back the frames behind them
// until their outcome, so that these see it. All that a turn writes to a
// connection leaves as one Send. ERR codes that close do so once their answer
// has its turn.
//
// # The life of a subscription and of a delivery
//
// SUB proposes Join. Its outcome makes a subscription: a member of a group whose
// partitions have a lane each here. Every change of the group is compared, lane
// by lane, with what the members were told; NOTICE tells them the difference. A
// PULL takes from the lanes of its subscription what is due: redeliveries whose
// time has come, then first deliveries in log order. Each taken message becomes a
// delivery of its lane with a lease and goes out as MSG; a Deliver op for the
// run is proposed in the same turn, before anything else of that delivery can
// be. MSG is no answer: it goes out when its PULL is served, which may be before
// the answers that the PULL's own OK waits for. ACK, NACK, the end of the lease, the end of the ownership - whichever is
// first in the log - ends it. A PULL that finds too little waits; what may change
// that wakes it, once per turn.
//
// # Invariants
//
//  1. Answers leave a connection in the order of its requests, one each.
//  2. Nothing of another connection can be named: subscriptions are looked up in
//     the connection's own list, deliveries in that subscription's own lanes.
//  3. A lane's deliveries are those of its current ownership epoch; each has a
//     place in the lease list, which is in rising order of deadline.
//  4. A delivery id is used once; the Deliver op that names it is proposed before
//     any op that refers to it.
//  5. A subscription's balance is max(0, window - taken): MSG takes, CREDIT gives
//     back or changes the window, and nothing else does either.
//  6. What a member was told (epochs, partitions) is exactly what PULL, HEARTBEAT
//     and CREDIT are held against. No NOTICE leaves before SUB's OK.
//  7. Leases and member timers run on a clock of their own that stands still
//     while changes are refused and over gaps between turns (patience.go).
//  8. A connection's frames are read only while it has fewer than 1024 requests
//     and 32 MiB unanswered, and little unwritten output; reading stops at a
//     frame boundary.
//  9. Every memory that a client can make grow has a bound: ring, held bytes,
//     output, subscriptions, deliveries, pulls.
//
// # What it does not do
//
// It decides nothing that must survive: dedup, fencing, attempts, assignment and
// floors are the machine's. It does not know what disk or quorum are up to:
// Broker.Propose and Broker.Refusing say when a change is refused. It frames no
// bytes (package wire) and moves none (package net).
package session
