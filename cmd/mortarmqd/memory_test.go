package main

import (
	"flag"
	"fmt"
	"io"
	stdnet "net"
	"os"
	"strings"
	"testing"

	"github.com/mortarmq/mortarmq/wire"
)

var (
	idleConns    = flag.Int("memory.idle", 2000, "connections of TestIdleConnections")
	hostileConns = flag.Int("memory.hostile", 1000, "connections of TestHostileLengths")
)

// residentKiB reads the broker's resident memory.
func (p *process) residentKiB() int {
	p.t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		p.t.Fatal(err)
	}
	for _, line := range strings.Split(string(data), "\n") {
		var n int
		if _, err := fmt.Sscanf(line, "VmRSS: %d kB", &n); err == nil {
			return n
		}
	}
	p.t.Fatal("no VmRSS")
	return 0
}

// exchange sends request and takes in an answer as long as answer, into its memory.
func exchange(t *testing.T, c stdnet.Conn, request, answer []byte) {
	t.Helper()
	if _, err := c.Write(request); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, answer); err != nil {
		t.Fatal(err)
	}
}

// connected opens n connections that have authenticated and got their answer.
func connected(t *testing.T, p *process, n int) []stdnet.Conn {
	t.Helper()
	conns := make([]stdnet.Conn, n)
	hello := (&wire.Connect{ProtocolVersion: wire.Version}).Append(nil)
	answer := wire.AppendOKEmpty(nil, wire.OpConnect)
	for i := range conns {
		c, err := stdnet.Dial("tcp", p.client)
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		t.Cleanup(func() { c.Close() })
		exchange(t, c, hello, answer)
		conns[i] = c
	}
	return conns
}

// Goal: idle connections are cheap, also such as have published: 10 000 of them
// within 250 MiB, fewer in proportion.
func TestIdleConnections(t *testing.T) {
	p := start(t, "--data-dir", t.TempDir(), "--listen-client", "127.0.0.1:0", "--listen-admin", "127.0.0.1:0")
	conns := connected(t, p, *idleConns)
	t.Logf("%d idle connections: %d KiB resident", *idleConns, p.residentKiB())
	ask := (&wire.Pub{TopicID: 1, Value: []byte("m")}).Append((&wire.Declare{Topic: []byte("t"), PartitionCount: 1}).Append(nil))
	answer := (&wire.PubResult{}).AppendOK((&wire.DeclareResult{}).AppendOK(nil))
	for _, c := range conns {
		exchange(t, c, ask, answer)
	}
	got := p.residentKiB()
	limit := 50<<10 + *idleConns*20
	t.Logf("each has published: %d KiB resident", got)
	if got > limit {
		t.Fatalf("%d KiB resident with %d idle connections, at most %d", got, *idleConns, limit)
	}
}

// Goal: a declared length costs nothing: authenticated connections that announce
// frames of 16 MiB and send five bytes of them add at most 16 KiB each.
func TestHostileLengths(t *testing.T) {
	p := start(t, "--data-dir", t.TempDir(), "--listen-client", "127.0.0.1:0", "--listen-admin", "127.0.0.1:0")
	conns := connected(t, p, *hostileConns)
	before := p.residentKiB()
	head := []byte{1, 0, 0, 0, byte(wire.OpPub), 0, 1, 0, 0}
	for _, c := range conns {
		if _, err := c.Write(head); err != nil {
			t.Fatal(err)
		}
	}
	// A PING on one more connection is answered behind all of them.
	exchange(t, connected(t, p, 1)[0], (&wire.Ping{}).Append(nil), wire.AppendOKEmpty(nil, wire.OpPing))
	got := p.residentKiB() - before
	t.Logf("%d hostile connections: %d KiB more", *hostileConns, got)
	if limit := *hostileConns * 16; got > limit {
		t.Fatalf("%d KiB more, at most %d", got, limit)
	}
}
