package session

import (
	"crypto/sha256"
	"crypto/subtle"

	"github.com/mortarmq/mortarmq/wire"
)

// authFailedText is the same for every cause (errors.md, 0006).
const authFailedText = "the token is not one that this broker knows: check the token"

// connect carries out CONNECT.
func (s *Sessions) connect(i uint32, c *conn, f wire.Frame) {
	if c.state != connGreeted {
		n, _ := s.push(i, c, f)
		s.behindPulls(i, c, n)
		s.refuse(i, c, n, wire.CodeMalformedPayload, "this connection has sent its CONNECT already")
		return
	}
	n, r := s.push(i, c, f)
	var m wire.Connect
	if err := m.Decode(f.Payload); err != nil {
		s.refuseBad(i, c, n, err)
		return
	}
	if !s.admits(m.Token) {
		c.state = connFailing
		c.closeAt = s.now.Add(authFailDelay)
		s.timers.lower(i, c.closeAt)
		return
	}
	c.state = connOpen
	c.reader.SetMaxLen(wire.MaxFrameLen)
	r.kind = answerConnect
	if m.ClientFlags&wire.FlagConnectLeaderHint != 0 {
		r.flags |= flagHint
	}
	s.decided(i, c, n)
	s.timers.lower(i, c.wakeAt())
}

// admits compares the token's digest with every one that is configured, in
// constant time.
func (s *Sessions) admits(token []byte) bool {
	if len(s.cfg.TokenDigests) == 0 {
		return true
	}
	digest := sha256.Sum256(token)
	found := 0
	for k := range s.cfg.TokenDigests {
		found |= subtle.ConstantTimeCompare(digest[:], s.cfg.TokenDigests[k][:])
	}
	return found == 1
}

// failConnect answers a CONNECT with a wrong token, the last request in the ring.
func (s *Sessions) failConnect(i uint32, c *conn) {
	s.refuse(i, c, c.ring.tail-1, wire.CodeAuthFailed, authFailedText)
}

func (s *Sessions) writeConnect(b []byte, r *request) []byte {
	m := wire.ConnectResult{HasHint: r.flags&flagHint != 0, NodeID: s.cfg.NodeID, LeaderID: s.leaderID, LeaderEpoch: uint64(s.leaderEpoch)}
	b = m.AppendOK(b) // without the address, which is a string: see below
	if !m.HasHint || s.leaderAddr == "" {
		return b
	}
	m.Addr = []byte(s.leaderAddr)
	return m.AppendOK(b[:len(b)-connectOKSize])
}

// connectOKSize is the size of an OK frame with a hint whose address is empty.
const connectOKSize = 4 + 1 + 5 + 14
