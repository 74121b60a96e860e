package core

import (
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/wire"
)

// call is a DECLARE under way: the application's own, or the look-up of a topic by a producer or consumer.
type call struct {
	ref       uint64
	producer  *producer
	consumer  *consumer
	name      string
	count     uint16
	remove    bool
	lookup    bool // by way of the twin, which is never created
	inFlight  bool
	uncertain bool // an earlier sending may have had its effect
	gone      bool // nobody waits any more
	failures  int
	code      wire.Code // the last refusal
	due       clock.Instant
}

func (c *Core) declare(in *Input) {
	c.addCall(&call{ref: in.Ref, name: in.Topic, count: in.Count, remove: in.Kind == InputDelete})
}

// addCall judges the name at once, as the broker would, and queues the call.
func (c *Core) addCall(k *call) {
	if c.fatal.Failed() {
		c.callDone(k, wire.DeclareResult{}, c.fatal)
		return
	}
	name := []byte(k.name)
	if err := wire.CheckTopicName(name); err != nil && (k.remove || !wire.IsDLQName(name)) {
		c.callDone(k, wire.DeclareResult{}, refusal(wire.CodeInvalidTopic, err.(*wire.DecodeError).Message))
		return
	}
	if k.lookup && !wire.IsDLQName(name) {
		// A twin is found but never created, and the topic's id is the one before it (wire-protocol.md, "The twin").
		twin, ok := wire.DLQName(name)
		if !ok {
			c.callDone(k, wire.DeclareResult{}, refusal(wire.CodeInvalidTopic,
				"a topic name of more than 251 bytes cannot be looked up: let it be declared"))
			return
		}
		k.name = string(twin)
	} else {
		k.lookup = false
	}
	k.due = c.now
	c.calls = append(c.calls, k)
}

func refusal(code wire.Code, message string) Err {
	return Err{Reason: ReasonRefused, Op: wire.OpDeclare, Code: code, Message: message}
}

func (c *Core) sendCalls() {
	for _, k := range c.calls {
		if k.inFlight || c.now < k.due || c.fifo.len() >= requestsMax {
			continue
		}
		m := wire.Declare{Topic: []byte(k.name), PartitionCount: k.count}
		if k.remove {
			m.Flags = wire.FlagDeclareDelete
		}
		c.wbuf = m.Append(c.wbuf)
		k.inFlight = true
		c.request(request{op: wire.OpDeclare, call: k})
	}
}

func (c *Core) callLost(k *call) {
	k.inFlight, k.uncertain = false, true
	k.due = c.now
	if k.gone {
		c.dropCall(k)
	}
}

func (c *Core) callErr(k *call, err Err, info wire.CodeInfo) {
	k.inFlight, k.code = false, err.Code
	if info.Outcome == wire.OutcomeUnknown {
		k.uncertain = true
	}
	if !k.gone && (info.Retry == wire.RetryBackoff || info.Retry == wire.RetryLeader) {
		k.failures++
		k.due = c.now.Add(c.backoff(k.failures))
		return
	}
	err.Unknown = k.uncertain
	c.dropCall(k)
	c.callDone(k, wire.DeclareResult{}, err)
}

func (c *Core) callOK(k *call, res wire.DeclareResult) {
	c.dropCall(k)
	if k.lookup && res.TopicID > 0 {
		res.TopicID--
	}
	c.callDone(k, res, Err{})
}

func (c *Core) dropCall(k *call) {
	for i, other := range c.calls {
		if other == k {
			c.calls = append(c.calls[:i], c.calls[i+1:]...)
			return
		}
	}
}

// callDone tells whoever asked.
func (c *Core) callDone(k *call, res wire.DeclareResult, err Err) {
	switch {
	case k.gone:
	case k.producer != nil:
		c.producerResolved(k.producer, res, err)
	case k.consumer != nil:
		c.consumerResolved(k.consumer, res, err)
	default:
		c.event(Event{Kind: EventDeclared, Ref: k.ref, TopicID: res.TopicID, Partitions: res.PartitionCount,
			Declared: res.Created, Err: err})
	}
}

// cancelCall ends a declare whose caller has gone: it is not sent again.
func (c *Core) cancelCall(ref uint64) {
	for _, k := range c.calls {
		if k.ref != ref || k.producer != nil || k.consumer != nil || k.gone {
			continue
		}
		c.callDone(k, wire.DeclareResult{}, Err{Reason: ReasonCanceled, Unknown: k.inFlight || k.uncertain, Op: wire.OpDeclare, Code: k.code})
		k.gone = true
		if !k.inFlight {
			c.dropCall(k)
		}
		return
	}
}

// forgetCalls is for a producer or consumer that ends while its topic is looked up.
func (c *Core) forgetCalls(p *producer, s *consumer) {
	for i := 0; i < len(c.calls); {
		k := c.calls[i]
		if (p == nil || k.producer != p) && (s == nil || k.consumer != s) {
			i++
			continue
		}
		k.gone = true
		if k.inFlight {
			i++ // its answer is still to come
			continue
		}
		c.calls = append(c.calls[:i], c.calls[i+1:]...)
	}
}
