package core

import (
	"strings"

	"github.com/mortarmq/mortarmq/wire"
)

func (c *Core) onBytes(data []byte) {
	k := &c.conn
	if k.phase != phaseConnecting && k.phase != phaseOpen && k.phase != phaseDraining {
		return
	}
	k.quietSince = c.now
	id := k.id
	k.reader.Feed(data)
	for k.id == id {
		f, ok, err := k.reader.Next()
		if err != nil {
			if k.phase == phaseConnecting && strings.HasPrefix(string(data), "HTTP/") {
				c.abort("no broker's client port: an HTTP server answers there, such as a broker's admin port")
				return
			}
			c.abort("the broker sent no frame: " + err.Error())
			return
		}
		if !ok {
			return
		}
		if err := c.onFrame(f); err != nil {
			c.abort("the broker sent a bad " + f.Op.String() + ": " + err.Error())
			return
		}
	}
}

// onFrame takes one frame. An error ends the connection.
func (c *Core) onFrame(f wire.Frame) error {
	switch f.Op {
	case wire.OpOK:
		var m wire.OK
		if err := m.Decode(f.Payload); err != nil {
			return err
		}
		if err := c.match(m.RequestOp); err != nil {
			return err
		}
		return c.onOK(c.fifo.pop(), m.Result)
	case wire.OpErr:
		var m wire.Err
		if err := m.Decode(f.Payload); err != nil {
			return err
		}
		return c.onErr(&m)
	case wire.OpMsg:
		return c.onMsg(f)
	case wire.OpNotice:
		var m wire.Notice
		if err := m.Decode(f.Payload); err != nil {
			return err
		}
		c.onNotice(&m)
		return nil
	}
	return errOp
}

type protocolError string

func (e protocolError) Error() string { return string(e) }

const (
	errOp      = protocolError("a broker does not send this op")
	errNothing = protocolError("nothing was asked")
	errMatch   = protocolError("it answers another request than the oldest unanswered one")
)

// match is C5.
func (c *Core) match(op wire.Op) error {
	if c.fifo.len() == 0 {
		return errNothing
	}
	if c.fifo.front().op != op {
		return errMatch
	}
	return nil
}

func (c *Core) onOK(r request, result []byte) error {
	if r.op != wire.OpConnect {
		c.conn.failures = 0
	}
	switch r.op {
	case wire.OpConnect:
		var res wire.ConnectResult
		if err := res.Decode(result, true); err != nil {
			return err
		}
		c.connected(&res)
		return nil
	case wire.OpDeclare:
		var res wire.DeclareResult
		if err := res.Decode(result); err != nil {
			c.callLost(r.call)
			return err
		}
		c.conn.leaderErr = 0
		c.callOK(r.call, res)
		return nil
	case wire.OpPub:
		var res wire.PubResult
		if err := res.Decode(result, false); err != nil {
			c.pubLost(r.slot)
			return err
		}
		c.conn.leaderErr = 0
		c.pubOK(r.slot, &res)
		return nil
	}
	return c.onMemberOK(&r, result)
}

func (c *Core) onErr(m *wire.Err) error {
	err := Err{Reason: ReasonRefused, Op: m.RequestOp, Code: m.Code, Message: string(m.Message)}
	if m.RequestOp == wire.OpNone {
		// About the connection: it will be closed, and then this is why.
		c.conn.lastErr = err
		return nil
	}
	if err := c.match(m.RequestOp); err != nil {
		return err
	}
	r := c.fifo.pop()
	info, _ := m.Code.Info()
	if info.Close {
		c.conn.lastErr = err
	}
	switch r.op {
	case wire.OpConnect:
		c.connectErr(err, info)
	case wire.OpDeclare:
		c.callErr(r.call, err, info)
	case wire.OpPub:
		c.pubErr(r.slot, err)
	case wire.OpPing:
	default:
		c.onMemberErr(&r, err, info)
	}
	if info.Retry == wire.RetryLeader && r.op != wire.OpConnect {
		c.seekLeader(m.Code, err.Message)
	}
	return nil
}

// connectErr is a refused CONNECT: final where nothing will ever change it, else another attempt.
func (c *Core) connectErr(err Err, info wire.CodeInfo) {
	switch err.Code {
	case wire.CodeAuthFailed, wire.CodeUnsupportedVersion, wire.CodeMalformedPayload:
		c.fail(err)
		return
	}
	c.conn.hint = leaderOf(err.Message)
	c.hangUp()
	c.lost(err)
}
