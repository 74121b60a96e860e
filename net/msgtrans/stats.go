package msgtrans

import "sync/atomic"

// Stats counts what a connection, or all of an endpoint's, has done.
type Stats struct {
	PacketsIn, PacketsOut uint64
	BytesIn, BytesOut     uint64 // of whole packets, with what frames them on QUIC when sent
	Requests              uint64 // sent
	Responses             uint64 // received and matched
	Timeouts              uint64 // requests that ran out of time
	Unmatched             uint64 // Responses that nobody waited for: late, duplicate, foreign
	Unhandled             uint64 // messages and Requests without a handler
	Unanswered            uint64 // Requests whose handler gave no Reply
	Discarded             uint64 // messages and Requests that came during a close and were not accepted
	Texts                 uint64 // WebSocket text messages, which are ignored
}

type counters struct {
	packetsIn, packetsOut, bytesIn, bytesOut atomic.Uint64
	requests, responses, timeouts, unmatched atomic.Uint64
	unhandled, unanswered, discarded, texts  atomic.Uint64
}

func (c *counters) snapshot() Stats {
	return Stats{
		PacketsIn: c.packetsIn.Load(), PacketsOut: c.packetsOut.Load(),
		BytesIn: c.bytesIn.Load(), BytesOut: c.bytesOut.Load(),
		Requests: c.requests.Load(), Responses: c.responses.Load(),
		Timeouts: c.timeouts.Load(), Unmatched: c.unmatched.Load(),
		Unhandled: c.unhandled.Load(), Unanswered: c.unanswered.Load(),
		Discarded: c.discarded.Load(), Texts: c.texts.Load(),
	}
}

func (s *Stats) add(o Stats) {
	s.PacketsIn += o.PacketsIn
	s.PacketsOut += o.PacketsOut
	s.BytesIn += o.BytesIn
	s.BytesOut += o.BytesOut
	s.Requests += o.Requests
	s.Responses += o.Responses
	s.Timeouts += o.Timeouts
	s.Unmatched += o.Unmatched
	s.Unhandled += o.Unhandled
	s.Unanswered += o.Unanswered
	s.Discarded += o.Discarded
	s.Texts += o.Texts
}

// ServerStats counts a server's connections and what all of them have done.
type ServerStats struct {
	Stats
	Open     int    // connections now, handshakes included
	Accepted uint64 // connections that were opened
	Refused  uint64 // over ConnsMax, by the Accept hook, or with a failed handshake
}
