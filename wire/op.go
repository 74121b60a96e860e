package wire

// Op is the frame op: the byte behind the length (spec section 2).
type Op uint8

// The fifteen ops: nine of the core, 0x01 to 0x09, and six of the extension, 0x0A to 0x0F.
const (
	OpConnect    Op = 0x01
	OpDeclare    Op = 0x02
	OpPub        Op = 0x03
	OpSub        Op = 0x04
	OpAck        Op = 0x05
	OpNack       Op = 0x06
	OpPing       Op = 0x07
	OpErr        Op = 0x08
	OpOK         Op = 0x09
	OpMsg        Op = 0x0A
	OpPull       Op = 0x0B
	OpHeartbeat  Op = 0x0C
	OpNotice     Op = 0x0D
	OpControlAck Op = 0x0E
	OpCredit     Op = 0x0F
)

// OpNone is the request_op of an ERR that answers no request that could be named (spec section 3, "ERR request_op").
const OpNone Op = 0

var opNames = [...]string{
	OpConnect: "CONNECT", OpDeclare: "DECLARE", OpPub: "PUB", OpSub: "SUB", OpAck: "ACK", OpNack: "NACK",
	OpPing: "PING", OpErr: "ERR", OpOK: "OK", OpMsg: "MSG", OpPull: "PULL", OpHeartbeat: "HEARTBEAT",
	OpNotice: "NOTICE", OpControlAck: "CONTROL_ACK", OpCredit: "CREDIT",
}

// Known says whether the op is one of the fifteen. Any other closes the connection with UNKNOWN_OP.
func (op Op) Known() bool { return op >= OpConnect && op <= OpCredit }

// FromClient says whether a client may send the op. ERR and OK go both ways; MSG and NOTICE are the server's alone.
func (op Op) FromClient() bool { return op.Known() && op != OpMsg && op != OpNotice }

// FromServer says whether a server may send the op.
func (op Op) FromServer() bool { return op == OpErr || op == OpOK || op == OpMsg || op == OpNotice }

// String is the op's name in the specification, OP_XX for one that is not known.
func (op Op) String() string {
	if op.Known() {
		return opNames[op]
	}
	const hex = "0123456789ABCDEF"
	return "OP_" + string([]byte{hex[op>>4], hex[op&0xF]})
}
