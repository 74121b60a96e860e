package msgtrans

import (
	"fmt"
	stdnet "net"
	"net/url"
)

// Transport is what carries a connection, named as in an address.
type Transport string

// The transports.
const (
	TCP  Transport = "tcp"  // tcp://host:port
	TCPS Transport = "tcps" // the same inside TLS
	WS   Transport = "ws"   // ws://host:port/path
	WSS  Transport = "wss"  // the same inside TLS
	QUIC Transport = "quic" // quic://host:port, always inside TLS
)

func (t Transport) webSocket() bool { return t == WS || t == WSS }

// address is a parsed address.
type address struct {
	transport Transport
	host      string // host:port
	path      string // WebSocket only, at least "/"
}

func (a address) String() string { return string(a.transport) + "://" + a.host + a.path }

// at returns a with the host and port that a listener got.
func (a address) at(actual stdnet.Addr) address {
	a.host = actual.String()
	return a
}

func parseAddress(s string) (address, error) {
	u, err := url.Parse(s)
	if err != nil {
		return address{}, fmt.Errorf("msgtrans: address: %w", err)
	}
	a := address{transport: Transport(u.Scheme), host: u.Host, path: u.RequestURI()}
	switch a.transport {
	case TCP, TCPS, QUIC:
		if u.Path != "" || u.RawQuery != "" {
			return address{}, fmt.Errorf("msgtrans: address %q: %s has no path", s, a.transport)
		}
		a.path = ""
	case WS, WSS:
	default:
		return address{}, fmt.Errorf("msgtrans: address %q: want tcp, tcps, ws, wss or quic in front of ://host:port", s)
	}
	if _, _, err := stdnet.SplitHostPort(a.host); err != nil && !a.transport.webSocket() {
		return address{}, fmt.Errorf("msgtrans: address %q: %w", s, err)
	}
	if a.host == "" {
		return address{}, fmt.Errorf("msgtrans: address %q has no host", s)
	}
	return a, nil
}
