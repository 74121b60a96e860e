package node

import "github.com/mortarmq/mortarmq/node/session"

// refQueue holds who waits for the ops proposed and not yet applied, in order
// (invariant 3). It is a ring that grows to the largest number ever pending.
type refQueue struct {
	ring []session.Ref
	head int
	n    int
}

func (q *refQueue) push(r session.Ref) {
	if q.n == len(q.ring) {
		grown := make([]session.Ref, max(64, 2*len(q.ring)))
		for i := range q.n {
			grown[i] = q.ring[(q.head+i)&(len(q.ring)-1)]
		}
		q.ring, q.head = grown, 0
	}
	q.ring[(q.head+q.n)&(len(q.ring)-1)] = r
	q.n++
}

func (q *refQueue) pop() session.Ref {
	if q.n == 0 {
		panic("node: invariant 3: an op was applied that nobody proposed")
	}
	r := q.ring[q.head]
	q.head = (q.head + 1) & (len(q.ring) - 1)
	q.n--
	return r
}
