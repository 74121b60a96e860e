package wire

var (
	errOKShort  = malformed("OK ends before its last field")
	errOKResult = malformed("OK result_len reaches beyond the payload")
	errOKTail   = malformed("OK has bytes after its last field")
)

// OK is the payload of OK (spec section 2). ConnectResult, DeclareResult, PubResult, SubResult and CreditResult read its
// result; that of every other request is empty.
//
//	offset  size  field
//	0       1     request_op
//	1       4     result_len
//	5       R     result
type OK struct {
	RequestOp Op
	Result    []byte // borrowed from the payload
}

// Decode reads a payload. After an error m holds nothing of use. A request_op that is not known is kept: whoever
// matches it with a request will miss the request.
func (m *OK) Decode(p []byte) error {
	if len(p) < okHeaderSize {
		return errOKShort
	}
	n := uint64(be.Uint32(p[1:]))
	if n > uint64(len(p)-okHeaderSize) {
		return errOKResult
	}
	if n < uint64(len(p)-okHeaderSize) {
		return errOKTail
	}
	m.RequestOp = Op(p[0])
	m.Result = p[okHeaderSize:len(p):len(p)]
	return nil
}

// Append appends the whole frame.
func (m *OK) Append(b []byte) []byte {
	return append(appendOKHead(b, m.RequestOp, len(m.Result)), m.Result...)
}
