// Goal: fifteen ops with their published numbers, names and directions.
package wire

import "testing"

func TestOps(t *testing.T) {
	// Goal: the 256 op bytes fall into fifteen known ones and the rest, and each knows who may send it.
	const client, server, both = "C>S", "S>C", "both"
	known := map[Op][2]string{
		0x01: {"CONNECT", client}, 0x02: {"DECLARE", client}, 0x03: {"PUB", client}, 0x04: {"SUB", client},
		0x05: {"ACK", client}, 0x06: {"NACK", client}, 0x07: {"PING", client}, 0x08: {"ERR", both}, 0x09: {"OK", both},
		0x0A: {"MSG", server}, 0x0B: {"PULL", client}, 0x0C: {"HEARTBEAT", client}, 0x0D: {"NOTICE", server},
		0x0E: {"CONTROL_ACK", client}, 0x0F: {"CREDIT", client},
	}
	for n := range 256 {
		op := Op(n)
		w, ok := known[op]
		if op.Known() != ok {
			t.Errorf("%v: known is %v", op, !ok)
		}
		if ok && op.String() != w[0] {
			t.Errorf("%02x is called %v, want %s", n, op, w[0])
		}
		if op.FromClient() != (ok && w[1] != server) || op.FromServer() != (ok && w[1] != client) {
			t.Errorf("%v: wrong direction", op)
		}
	}
	if s := Op(0xFE).String(); s != "OP_FE" {
		t.Error(s)
	}
	if s := OpNone.String(); s != "OP_00" {
		t.Error(s)
	}
}
