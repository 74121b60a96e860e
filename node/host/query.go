package host

import (
	"context"
	"errors"
	"sync"

	"github.com/mortarmq/mortarmq/node"
)

// ErrClosed answers a query when the host has ended.
var ErrClosed = errors.New("the broker is shutting down")

// queryInbox carries questions of the admin port to the loop and the answers
// back.
type queryInbox struct {
	mu      sync.Mutex
	next    uint64
	waiting map[uint64]chan node.Answer
	queue   []node.Input
	closed  bool
}

// Query asks the node and waits for its answer. The answer's bytes are the
// caller's.
func (h *Host) Query(ctx context.Context, q node.Query) (node.Answer, error) {
	id, ch, err := h.queries.add(q)
	if err != nil {
		return node.Answer{}, err
	}
	h.baton.call()
	select {
	case a, ok := <-ch:
		if !ok {
			return node.Answer{}, ErrClosed
		}
		return a, nil
	case <-ctx.Done():
		h.queries.forget(id)
		return node.Answer{}, ctx.Err()
	}
}

func (b *queryInbox) add(q node.Query) (uint64, chan node.Answer, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return 0, nil, ErrClosed
	}
	if b.waiting == nil {
		b.waiting = map[uint64]chan node.Answer{}
	}
	b.next++
	q.ID = b.next
	ch := make(chan node.Answer, 1)
	b.waiting[q.ID] = ch
	b.queue = append(b.queue, node.Input{Kind: node.InputQuery, Query: q})
	return q.ID, ch, nil
}

func (b *queryInbox) forget(id uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.waiting, id)
}

func (b *queryInbox) take(in []node.Input) []node.Input {
	b.mu.Lock()
	defer b.mu.Unlock()
	in = append(in, b.queue...)
	clear(b.queue)
	b.queue = b.queue[:0]
	return in
}

func (b *queryInbox) answer(a *node.Answer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	ch, ok := b.waiting[a.ID]
	if !ok {
		return
	}
	delete(b.waiting, a.ID)
	ch <- *a
}

func (b *queryInbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	for id, ch := range b.waiting {
		close(ch)
		delete(b.waiting, id)
	}
}
