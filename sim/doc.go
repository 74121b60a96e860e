// Package sim runs the real broker and the real client in a simulated world,
// breaks what can break there, and says whether a property broke with it.
//
// The life of a run: Draw makes a Plan of a seed - text, with everything that
// will be done and everything that will go wrong, each at its time and with a
// chance of its own; Run is a pure function of the plan; its Result has a verdict
// and the first bad event. A scenario is a plan with a title and an expectation;
// Shrink makes one of a failing plan.
//
// The life of a moment: the world (world.go) goes to the next instant at which
// anything is due - an event of the plan, a disk request, bytes on a link, a
// deadline of the node or of a client -, lets disk and network move, and gives
// turns: to the node (host.go), with its inputs cut and ordered by chance, and
// to the clients (client.go, raw.go, hostile.go); an operator (operator.go) puts
// changes to the node's admin side. In scenarios members follow a script
// (member.go), and the books are held against it (books.go). Then the storm ends: faults are
// taken back, everything is served to the end within bounded virtual time, the
// node is stopped, its directory verified offline, started again and read.
//
// While it runs (judge.go): what the broker acknowledges must be in bytes that
// the disk model calls durable, invariants and books of the machine hold at
// every sample, what clients can make grow is within its limits, a restarted node
// has the state that it had. In the end (final.go) leases
// and backoffs are held against the node's own clock (leases.go), and package
// checker judges the history.
//
// The fault atlas (atlas.go) says which faults must be survived. What is beyond
// it (a lying disk, rot of synced bytes, a lost file) must end in a refusal that
// names the damage, or is excused where storage.md says that it cannot be known.
//
// Invariants:
//
//  1. A run follows from its plan alone: one goroutine, virtual time, no map
//     walked. The rolling hash over every effect says so (determinism.go).
//  2. Taking an event out of a plan leaves the chance of the others as it was.
//  3. A run that ends early because of a refusal was within a plan that had a
//     fault beyond the atlas, and that fault had happened.
//  4. The checks do not ask the broker what they check: durability is the disk
//     model's answer, content the clients' and the log's.
//
// It plants no bug: fault.On does, in the broker, in another build.
package sim
