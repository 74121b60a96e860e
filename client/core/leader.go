package core

import (
	"strings"

	"github.com/mortarmq/mortarmq/wire"
)

// leaderText stands before the leader's address at the end of a STALE_LEADER_EPOCH text (wire-protocol.md, "A follower").
const leaderText = "leader="

// leaderOf is the address that a refusal's text ends in, empty where there is none.
func leaderOf(message string) string {
	i := strings.LastIndex(message, leaderText)
	if i < 0 {
		return ""
	}
	addr := message[i+len(leaderText):]
	if addr == "" || strings.ContainsAny(addr, " \t\r\n") || !strings.Contains(addr, ":") {
		return ""
	}
	return addr
}

// seekLeader acts on a code of retry column l. A node that was deposed says so, and then the connection is left for where the
// leader is; one that still leads but cannot commit is asked again after the backoff, and left for another address when it
// keeps refusing. Leaving costs every consumer on the connection its membership, so it is not done lightly.
func (c *Core) seekLeader(code wire.Code, message string) {
	k := &c.conn
	if k.phase != phaseOpen {
		return
	}
	if addr := leaderOf(message); addr != "" && addr != k.addr {
		c.leave(addr)
		return
	}
	k.leaderErr++
	switch code {
	case wire.CodeStaleLeaderEpoch, wire.CodeProducerEpochStale:
		c.leave("")
	default:
		if k.leaderErr > leaderErrMax && len(c.opt.Addrs) > 1 {
			c.leave("")
		}
	}
}

// leaderErrMax is how often a node that leads may say that it cannot before another address is tried.
const leaderErrMax = 3

// leave stops sending and goes when the answers under way have come, or after leaderDrain.
func (c *Core) leave(hint string) {
	k := &c.conn
	k.hint = hint
	k.phase, k.due = phaseDraining, c.now.Add(leaderDrain)
}
