package core

import (
	"errors"

	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/net"
	"github.com/mortarmq/mortarmq/wire"
)

// Options are what a Core is made with. Zero values stand for the defaults.
type Options struct {
	// Addrs are the brokers' client addresses, HOST:PORT, tried in turn. At least one.
	Addrs []string
	// Token authenticates every connection; empty where none is configured.
	Token []byte
	// Seed feeds backoff jitter and producer ids. Two clients with one seed would deduplicate each other's publishes, so a
	// driver in production draws it at random.
	Seed uint64
	// FirstConn is the ConnID of the first connection; later ones count up from it. Default 1.
	FirstConn net.ConnID

	ConnectTimeout  clock.Duration // dial and CONNECT together; default 5 s
	ResponseTimeout clock.Duration // silence while a request is unanswered that ends a connection; default 20 s
	Keepalive       clock.Duration // silence of ours after which PING is sent; default 30 s
	BackoffBase     clock.Duration // first pause before a repeat; default 20 ms
	BackoffMax      clock.Duration // longest pause before a repeat; default 2 s

	// MaxInFlight bounds unanswered publishes, in messages; default 896, at most 960, so that other requests find room
	// within the protocol's 1024.
	MaxInFlight int
	// MaxInFlightBytes bounds their bytes, except that one may always be; default 24 MiB.
	MaxInFlightBytes int
}

const (
	// requestsMax bounds unanswered requests of all kinds. The broker stops reading at wire.MaxUnansweredRequests.
	requestsMax = 1000
	inFlightMax = 960
	// leaderDrain is how long a connection to a node that does not lead is read on, so that answers under way arrive.
	leaderDrain = 500 * clock.Millisecond
	// redirectsMax is how many leader hints in a row are followed without a pause.
	redirectsMax = 3
)

// C6 against the protocol's limits, at compile time.
const (
	_ uint = wire.MaxUnansweredRequests - requestsMax
	_ uint = requestsMax - inFlightMax - 2*wire.MaxWaitingPulls
	_ uint = wire.DedupWindow - inFlightMax
)

// Validate says what is wrong with o, nil when New will take it.
func (o *Options) Validate() error {
	if len(o.Addrs) == 0 {
		return errors.New("no address given: name at least one broker as HOST:PORT")
	}
	for _, a := range o.Addrs {
		if a == "" {
			return errors.New("an address is empty: name brokers as HOST:PORT")
		}
	}
	switch {
	case len(o.Token) > wire.MaxTokenLen:
		return errors.New("the token is longer than 65535 bytes")
	case o.MaxInFlight < 0 || o.MaxInFlight > inFlightMax:
		return errors.New("the option MaxInFlight must be from 1 to 960")
	case o.MaxInFlightBytes < 0 || o.MaxInFlightBytes > wire.MaxUnansweredBytes:
		return errors.New("the option MaxInFlightBytes must be from 1 to 32 MiB")
	case o.ConnectTimeout < 0 || o.ResponseTimeout < 0 || o.Keepalive < 0 || o.BackoffBase < 0 || o.BackoffMax < 0:
		return errors.New("a duration is negative")
	case o.Keepalive >= clock.Duration(wire.KeepaliveTimeoutMillis)*clock.Millisecond:
		return errors.New("the option Keepalive must be below the 45 s after which the broker closes")
	}
	return nil
}

func (o Options) withDefaults() Options {
	if o.FirstConn == 0 {
		o.FirstConn = 1
	}
	def(&o.ConnectTimeout, 5*clock.Second)
	def(&o.ResponseTimeout, 20*clock.Second)
	def(&o.Keepalive, clock.Duration(wire.KeepaliveMillis)*clock.Millisecond)
	def(&o.BackoffBase, 20*clock.Millisecond)
	def(&o.BackoffMax, 2*clock.Second)
	o.BackoffMax = max(o.BackoffMax, o.BackoffBase)
	def(&o.MaxInFlight, 896)
	def(&o.MaxInFlightBytes, 24<<20)
	return o
}

func def[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// ProducerOptions are what a producer is made with.
type ProducerOptions struct {
	// Plain publishes without producer_id: nothing is deduplicated, and what was under way when a connection broke is
	// reported as Unknown instead of repeated.
	Plain bool
	// MustExist fails with UNKNOWN_TOPIC where the topic does not exist, instead of declaring it with the broker's default
	// partition count.
	MustExist bool
	// ID is the first producer_id; 0 draws one from the seed.
	ID uint64
}

// ConsumerOptions are what a consumer is made with. Zero values stand for the defaults.
type ConsumerOptions struct {
	MustExist      bool // as in ProducerOptions, for the topic
	GroupMustExist bool // UNKNOWN_GROUP where the group does not exist, instead of creating it
	Latest         bool // a group that this SUB creates starts behind the newest record, not at the oldest
	CreditCount    uint16
	CreditBytes    uint32
	// HandOut is how many deliveries of one partition are with the application at a time; default 1.
	HandOut int
	// Handlers is how many of them the application works on at the same time; the leases of the others are renewed. Default 1.
	Handlers int
	// StrictOrder holds a partition back while one of its messages is unsettled: HandOut is 1, the next delivery waits for
	// the ACK's answer, and after a NACK for the redelivery.
	StrictOrder bool
	// ConfirmRevoke makes a revoke wait for a ConfirmRevoke input after its deliveries are settled.
	ConfirmRevoke bool
	// Paused starts without pulling, until Resume.
	Paused bool

	PullWait  clock.Duration // how long a PULL may wait at the broker; default 2.5 s, so that an idle member is heard of
	Heartbeat clock.Duration // silence of ours after which HEARTBEAT is sent; default 3 s
	// Lease is the broker's delivery_lease_ms: what waits in the queue is renewed after a third of it. Default 30 s.
	Lease clock.Duration
	// MaxAttempts is the broker's delivery_max_attempts: StrictOrder does not wait for a redelivery behind that many
	// failures. Default 5.
	MaxAttempts int
	// RetryBackoffMax is the broker's retry_backoff_max_ms: StrictOrder gives up waiting for a redelivery a while after
	// it. Default 30 s.
	RetryBackoffMax clock.Duration
}

func (o ConsumerOptions) withDefaults() ConsumerOptions {
	if o.CreditCount == 0 {
		o.CreditCount = wire.DefaultCreditCount
	}
	if o.CreditBytes == 0 {
		o.CreditBytes = wire.DefaultCreditBytes
	}
	def(&o.HandOut, 1)
	def(&o.Handlers, 1)
	if o.StrictOrder {
		o.HandOut, o.Handlers = 1, 1
	}
	def(&o.PullWait, 2500*clock.Millisecond)
	def(&o.Heartbeat, 3*clock.Second)
	def(&o.Lease, 30*clock.Second)
	def(&o.MaxAttempts, 5)
	def(&o.RetryBackoffMax, 30*clock.Second)
	return o
}
