package wire

import "unicode/utf8"

const errFixed = 5

var (
	errErrShort = malformed("ERR ends before its last field")
	errErrLong  = malformed("ERR message is longer than 512 bytes")
	errErrText  = malformed("ERR message_len reaches beyond the payload")
	errErrTail  = malformed("ERR has bytes after its last field")
)

// Err is the payload of ERR (spec section 2; error registry).
//
//	offset  size  field
//	0       2     code
//	2       1     request_op, OpNone where no request can be named
//	3       2     message_len, at most 512
//	5       M     message
//
// A code and a request_op that are not known are no fault: the numbers are kept.
type Err struct {
	Code      Code
	RequestOp Op
	Message   []byte // borrowed from the payload
}

// Decode reads a payload. After an error m holds nothing of use.
func (m *Err) Decode(p []byte) error {
	if len(p) < errFixed {
		return errErrShort
	}
	n := int(be.Uint16(p[3:]))
	if n > MaxErrMessage {
		return errErrLong
	}
	if n > len(p)-errFixed {
		return errErrText
	}
	if n < len(p)-errFixed {
		return errErrTail
	}
	m.Code = Code(be.Uint16(p))
	m.RequestOp = Op(p[2])
	m.Message = p[errFixed:len(p):len(p)]
	return nil
}

// Append appends the whole frame. Like AppendErr it cuts a message that is too long.
func (m *Err) Append(b []byte) []byte {
	n := cutText(m.Message)
	return append(appendErrHead(b, m.Code, m.RequestOp, n), m.Message[:n]...)
}

// AppendErr appends a whole ERR frame. A message of more than 512 bytes is cut before the rune that crosses the limit.
func AppendErr(b []byte, code Code, op Op, msg string) []byte {
	n := cutText(msg)
	return append(appendErrHead(b, code, op, n), msg[:n]...)
}

func appendErrHead(b []byte, code Code, op Op, message int) []byte {
	b = appendHead(b, OpErr, errFixed+message)
	b = be.AppendUint16(b, uint16(code))
	b = append(b, byte(op))
	return be.AppendUint16(b, uint16(message))
}

// cutText is how much of a text fits an ERR without cutting a rune in two. Bytes that are no UTF-8 are cut anywhere.
func cutText[T string | []byte](s T) int {
	if len(s) <= MaxErrMessage {
		return len(s)
	}
	for n := MaxErrMessage; n > MaxErrMessage-utf8.UTFMax; n-- {
		if utf8.RuneStart(s[n]) {
			return n
		}
	}
	return MaxErrMessage
}
