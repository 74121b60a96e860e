package client

import (
	"errors"
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
