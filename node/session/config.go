package session

import (
	"errors"

	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/wire"
)

// Config is what sessions need of the node's configuration. The zero value
// works: it stands for the defaults named at the fields.
type Config struct {
	// NodeID is this node's number, told in CONNECT's hint. Default 1.
	NodeID uint16
	// AdvertisedAddr is HOST:PORT of this node's client listener, for the hint.
	AdvertisedAddr string
	// TokenDigests are SHA-256 digests of the tokens let in. None: any token is.
	TokenDigests [][32]byte
	// MaxConnections bounds the connections. Default 10 000.
	MaxConnections int
	// PublishRateLimit bounds PUBs per second and connection. 0: no bound.
	PublishRateLimit int
	// PollMaxWait bounds wait_ms of a PULL. Default 5 s.
	PollMaxWait clock.Duration
	// DeliveryLease is how long a delivery may stay unanswered. Default 30 s.
	DeliveryLease clock.Duration
	// CreditCount and CreditBytes are the window of a SUB with (0, 0). Default
	// 256 messages and 2 MiB.
	CreditCount uint16
	CreditBytes uint32
	// Quorum says that records are committed by a majority of several nodes.
	Quorum bool
}

// Times that are fixed (wire-protocol.md, broker.md).
const (
	authTimeout       = clock.Duration(wire.AuthTimeoutMillis) * clock.Millisecond
	authFailDelay     = clock.Duration(wire.AuthFailDelayMillis) * clock.Millisecond
	keepaliveTimeout  = clock.Duration(wire.KeepaliveTimeoutMillis) * clock.Millisecond
	halfFrameTimeout  = clock.Duration(wire.HalfFrameTimeoutMillis) * clock.Millisecond
	slowOutputTimeout = 30 * clock.Second // SLOW_CONSUMER
	closeTimeout      = 2 * clock.Second  // then Abort, when all is written; net's own drain is 1 s
	memberSilence     = 10 * clock.Second
	revokeTimeout     = 10 * clock.Second
	oversizePatience  = 5 * clock.Second // MESSAGE_EXCEEDS_CREDIT though others are served
	gapMax            = 1 * clock.Second // between turns; what is beyond is nobody's fault
	retryPause        = 100 * clock.Millisecond
	idleTrim          = 10 * clock.Second
	rateBurst         = 1 * clock.Second
)

// idsMax is how many member and delivery ids an epoch has.
const idsMax = 1<<op.IDCounterBits - 1

// Limits in bytes.
const (
	pullBytesMax   = 32 << 20 // MSG frames of one PULL (broker.md, "Credit")
	queuedBytesMax = 1 << 20  // unwritten output at which reading stops
	heldBytesMax   = 64 << 10 // held input at which the peer is made to wait
	keepBufferMax  = 1 << 20  // output buffers above this are not kept
	keepBytesMax   = 16 << 20 // output buffers kept in all
)

// Validate says what of the configuration cannot be.
func (c *Config) Validate() error {
	switch {
	case c.MaxConnections < 0:
		return errors.New("session: max_connections is below 0: use 0 for the default of 10000")
	case c.PublishRateLimit < 0 || c.PublishRateLimit > 1_000_000_000:
		return errors.New("session: publish_rate_limit is not between 0 (off) and 1000000000")
	case c.PollMaxWait < 0:
		return errors.New("session: poll_max_wait is below 0: use 0 for the default of 5 s")
	case c.DeliveryLease < 0:
		return errors.New("session: delivery_lease is below 0: use 0 for the default of 30 s")
	case len(c.AdvertisedAddr) > 1<<16-1:
		return errors.New("session: advertised address is longer than 65535 bytes")
	}
	return nil
}

func (c Config) withDefaults() Config {
	if c.NodeID == 0 {
		c.NodeID = 1
	}
	if c.MaxConnections == 0 {
		c.MaxConnections = 10_000
	}
	if c.PollMaxWait == 0 {
		c.PollMaxWait = 5 * clock.Second
	}
	if c.DeliveryLease == 0 {
		c.DeliveryLease = 30 * clock.Second
	}
	if c.CreditCount == 0 {
		c.CreditCount = wire.DefaultCreditCount
	}
	if c.CreditBytes == 0 {
		c.CreditBytes = wire.DefaultCreditBytes
	}
	return c
}
