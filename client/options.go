package client

import (
	"errors"
	"fmt"
	stdnet "net"
	"time"

	"github.com/mortarmq/mortarmq/client/core"
	"github.com/mortarmq/mortarmq/clock"
)

// DefaultAddr is where a broker listens that was not told otherwise.
const DefaultAddr = "127.0.0.1:7188"

// Options are what a Client is made with. The zero value works.
type Options struct {
	// Addrs are the brokers, HOST:PORT; one is enough, the others are for when it is down. Default DefaultAddr.
	Addrs []string
	// Token authenticates; empty where the broker has none configured.
	Token string
	// DialTimeout bounds Dial in addition to its context. Default 10 s.
	DialTimeout time.Duration
	// ConnectTimeout bounds one attempt. Default 5 s.
	ConnectTimeout time.Duration
	// ResponseTimeout is the silence of the broker, while it owes an answer, after which the connection is given up.
	// Default 20 s.
	ResponseTimeout time.Duration
	// Keepalive is the silence after which a sign of life is sent. Default 30 s, at most 45 s.
	Keepalive time.Duration
	// BackoffBase and BackoffMax bound the pause before a repeat, which doubles and is half random. Default 20 ms and 2 s.
	BackoffBase time.Duration
	BackoffMax  time.Duration
	// MaxInFlight bounds unanswered publishes. Default 896, at most 960.
	MaxInFlight int
	// OnConnection, if set, is told of each connection that was made (err nil, addr the broker's) or lost. It must not
	// block.
	OnConnection func(addr string, err error)
	// Seed makes backoffs and producer ids repeatable, for tests. Two clients must not share one. Default: random.
	Seed uint64
}

// Validate says what is wrong with o.
func (o Options) Validate() error {
	if o.DialTimeout < 0 {
		return errors.New("mortarmq: DialTimeout is negative")
	}
	for _, a := range o.Addrs {
		if _, port, err := stdnet.SplitHostPort(a); err != nil || port == "" {
			return fmt.Errorf("mortarmq: the address %q is not HOST:PORT", a)
		}
	}
	c := o.core()
	if err := c.Validate(); err != nil {
		return errors.New("mortarmq: " + err.Error())
	}
	return nil
}

func (o Options) withDefaults() Options {
	if len(o.Addrs) == 0 {
		o.Addrs = []string{DefaultAddr}
	}
	if o.DialTimeout == 0 {
		o.DialTimeout = 10 * time.Second
	}
	return o
}

func (o Options) core() core.Options {
	o = o.withDefaults()
	return core.Options{
		Addrs: o.Addrs, Token: []byte(o.Token), Seed: o.Seed,
		ConnectTimeout: clock.Duration(o.ConnectTimeout), ResponseTimeout: clock.Duration(o.ResponseTimeout),
		Keepalive: clock.Duration(o.Keepalive), BackoffBase: clock.Duration(o.BackoffBase),
		BackoffMax: clock.Duration(o.BackoffMax), MaxInFlight: o.MaxInFlight,
	}
}

// ProducerOptions are what a Producer is made with. The zero value works.
type ProducerOptions struct {
	// MustExist fails with UNKNOWN_TOPIC where the topic does not exist. The default declares it: that finds a topic
	// whatever its partition count is, and creates a missing one with the broker's default count.
	MustExist bool
	// Plain publishes without deduplication: a publish whose connection breaks ends as ErrOutcomeUnknown instead of
	// being repeated.
	Plain bool
	// MaxBufferedMessages bounds what is published and has not ended. Default 16384.
	MaxBufferedMessages int
	// MaxBufferedBytes bounds the memory of keys and values of these; one message is always taken. Default 32 MiB.
	MaxBufferedBytes int
}

// Validate says what is wrong with o.
func (o ProducerOptions) Validate() error {
	if o.MaxBufferedMessages < 0 || o.MaxBufferedBytes < 0 {
		return errors.New("mortarmq: a bound of the producer's buffer is negative")
	}
	return nil
}

func (o ProducerOptions) withDefaults() ProducerOptions {
	if o.MaxBufferedMessages == 0 {
		o.MaxBufferedMessages = 16384
	}
	if o.MaxBufferedBytes == 0 {
		o.MaxBufferedBytes = 32 << 20
	}
	return o
}

// ConsumerOptions are what a Consumer is made with. The zero value works.
type ConsumerOptions struct {
	// MustExist fails with UNKNOWN_TOPIC where the topic does not exist, instead of declaring it as ProducerOptions says.
	MustExist bool
	// GroupMustExist fails with UNKNOWN_GROUP where the group does not exist, instead of creating it.
	GroupMustExist bool
	// Latest starts a group that this consumer creates behind the newest message; the default is the oldest. A group that
	// exists goes on where it is.
	Latest bool

	// PartitionHandlers is how many handlers may be at work on one partition; above 1, order is lost. Default 1.
	PartitionHandlers int
	// StrictOrder holds a partition back while one of its messages is unsettled, failed ones included. It holds while the
	// partition is this member's, costs a round trip a message, and excludes PartitionHandlers above 1.
	StrictOrder bool
	// StopGrace is how long a stop waits for handlers before their contexts end. Default 10 s.
	StopGrace time.Duration

	// OnAssigned is called before the first message of a partition that has become this member's.
	OnAssigned func(partition uint16)
	// OnRevoked is called when the handlers of a partition that moves to another member are done; the other one gets it
	// when OnRevoked has returned, or after 10 s. A stop calls it too, before Run returns.
	OnRevoked func(partition uint16)
	// OnLost is called when a partition is gone without that, with the connection or because the broker had given the
	// member up; a handler may still be at work on it. The three are called one at a time, in order.
	OnLost func(partition uint16)
	// OnError is called with each error of a handler, a *PanicError for a panic, before the message is given back.
	OnError func(d *Delivery, err error)
	// OnTrouble is called when the broker can give nothing of what this member owns, because it is damaged (INTERNAL, the text
	// names the place): an operator has to act. The consumer stays, and goes on with what can be had again. Called once until
	// messages come, in order with OnAssigned, OnRevoked and OnLost.
	OnTrouble func(err error)

	// CreditCount and CreditBytes bound what is delivered and not settled. A message larger than CreditBytes fails the
	// consumer with MESSAGE_EXCEEDS_CREDIT. Default 256 and 2 MiB.
	CreditCount uint16
	CreditBytes uint32

	// Lease, MaxAttempts and RetryBackoffMax are the broker's delivery_lease_ms, delivery_max_attempts and retry_backoff_max_ms.
	// They need to be told only where the broker's differ from the defaults of 30 s, 5 and 30 s.
	Lease           time.Duration
	MaxAttempts     int
	RetryBackoffMax time.Duration
}

// Validate says what is wrong with o.
func (o ConsumerOptions) Validate() error {
	switch {
	case o.PartitionHandlers < 0 || o.MaxAttempts < 0:
		return errors.New("mortarmq: PartitionHandlers or MaxAttempts is negative")
	case o.StrictOrder && o.PartitionHandlers > 1:
		return errors.New("mortarmq: StrictOrder excludes PartitionHandlers above 1")
	case o.StopGrace < 0 || o.Lease < 0 || o.RetryBackoffMax < 0:
		return errors.New("mortarmq: a duration is negative")
	}
	return nil
}

func (o ConsumerOptions) withDefaults() ConsumerOptions {
	if o.PartitionHandlers == 0 {
		o.PartitionHandlers = 1
	}
	if o.StopGrace == 0 {
		o.StopGrace = 10 * time.Second
	}
	return o
}

// handOut is how many deliveries of a partition wait at its handlers, so that these need not wait for the loop.
const handOut = 64

func (o ConsumerOptions) core() *core.ConsumerOptions {
	return &core.ConsumerOptions{
		MustExist: o.MustExist, GroupMustExist: o.GroupMustExist, Latest: o.Latest,
		CreditCount: o.CreditCount, CreditBytes: o.CreditBytes,
		HandOut: handOut + o.PartitionHandlers, Handlers: o.PartitionHandlers, StrictOrder: o.StrictOrder,
		ConfirmRevoke: o.OnRevoked != nil, Paused: true,
		Lease: clock.Duration(o.Lease), MaxAttempts: o.MaxAttempts, RetryBackoffMax: clock.Duration(o.RetryBackoffMax),
	}
}
