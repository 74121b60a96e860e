package wire

import "encoding/binary"

// be is the byte order of everything on the wire (spec section 1).
var be = binary.BigEndian

// Frame is one frame as the reader hands it out.
//
//	offset  size  field
//	0       4     length: the op byte and the payload, 1 to MaxFrameLen
//	4       1     op
//	5       ...   payload, length - 1 bytes
type Frame struct {
	Op Op
	// Payload is what follows the op byte. It is borrowed: see FrameReader.
	Payload []byte
	// Owned says that Payload lies in memory that the reader has given up, so that whoever holds it may keep it.
	Owned bool
}

// Size is the number of bytes that the frame took on the wire.
func (f Frame) Size() int { return frameHeaderSize + len(f.Payload) }

// appendHead appends length and op of a frame whose payload of the given size the caller appends next.
func appendHead(b []byte, op Op, payload int) []byte {
	assert(payload < MaxFrameLen, "a frame would be longer than MaxFrameLen")
	n := uint32(payload) + 1
	return append(b, byte(n>>24), byte(n>>16), byte(n>>8), byte(n), byte(op))
}

// appendOKHead appends an OK frame up to its result, of the given size, which the caller appends next.
func appendOKHead(b []byte, op Op, result int) []byte {
	b = appendHead(b, OpOK, okHeaderSize+result)
	b = append(b, byte(op))
	return be.AppendUint32(b, uint32(result))
}

// AppendOKEmpty appends a whole OK frame without a result: the answer to ACK, NACK, PING, HEARTBEAT, CONTROL_ACK, PULL
// and to a CONNECT without LEADER_HINT.
func AppendOKEmpty(b []byte, op Op) []byte { return appendOKHead(b, op, 0) }

// malformed makes an error of the commonest kind, for the tables of errors at the top of each op's file.
func malformed(message string) *DecodeError {
	return &DecodeError{Code: CodeMalformedPayload, Message: message}
}
