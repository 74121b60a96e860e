package wire

var errPingTail = malformed("PING has a payload")

// Ping is the payload of PING, which is empty (spec section 2). Its OK is empty too. It is allowed before CONNECT.
type Ping struct{}

// Decode refuses any payload.
func (m *Ping) Decode(p []byte) error {
	if len(p) > 0 {
		return errPingTail
	}
	return nil
}

// Append appends the whole frame.
func (m *Ping) Append(b []byte) []byte { return appendHead(b, OpPing, 0) }
