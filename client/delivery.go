package client

import (
	"context"
	"time"

	"github.com/mortarmq/mortarmq/client/core"
)

// Delivery is a message in a handler's hands. Key and Value may be kept, but not changed; small values of one burst share
// memory.
type Delivery struct {
	Partition   uint16
	Sequence    uint64 // in the partition
	Attempt     int    // counts deliveries of the message to the group, from 1
	Redelivered bool
	FromDLQ     bool
	ProducerID  uint64 // with ProducerSeq names the publish; both 0 for a Plain one
	ProducerSeq uint64
	Key         []byte
	Value       []byte

	s   *Consumer
	id  uint64
	ctx context.Context
}

// Progress tells the broker that the handler is still at work: the delivery's lease begins anew. It does not wait.
func (d *Delivery) Progress() {
	d.s.c.inbox.post(&core.Input{Kind: core.InputProgress, Handle: d.s.handle, Partition: d.Partition, Delivery: d.id})
}

// verdict is an error that says how a delivery is given back.
type verdict struct {
	how     core.Settle
	delayed bool
	delay   time.Duration
	err     error
}

func (v *verdict) Error() string {
	if v.err == nil {
		return "mortarmq: " + v.how.String()
	}
	return v.err.Error()
}

func (v *verdict) Unwrap() error { return v.err }

// Reject makes the message a dead letter at once. err says why, and may be nil.
func Reject(err error) error { return &verdict{how: core.SettleReject, err: err} }

// Release gives the message back without charging an attempt; it is due again at once.
func Release(err error) error { return &verdict{how: core.SettleRelease, err: err} }

// ReleaseAfter is Release, due again after a delay of at most 24 h.
func ReleaseAfter(delay time.Duration, err error) error {
	return &verdict{how: core.SettleRelease, delayed: true, delay: delay, err: err}
}

// RetryAfter charges an attempt, and the message is due again after the delay, of at most 24 h, instead of the broker's
// backoff.
func RetryAfter(delay time.Duration, err error) error {
	return &verdict{how: core.SettleRetry, delayed: true, delay: delay, err: err}
}
