package ws

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	stdnet "net"
	"net/http"
	"net/http/httptrace"

	"github.com/coder/websocket"
)

// DialOptions is how a client opens a connection.
type DialOptions struct {
	// Subprotocols are offered to the server, in order of preference.
	Subprotocols []string
	// Header is sent with the opening handshake.
	Header http.Header
	// TLS is used for wss. Nil means the defaults of crypto/tls.
	TLS *tls.Config
	// MessageBytesMax bounds what Next returns.
	MessageBytesMax int
}

// Peer is what is known of the other end after the handshake.
type Peer struct {
	Local, Remote stdnet.Addr
	TLS           *tls.ConnectionState // nil without TLS
}

// StatusError says that the server answered the handshake with something other
// than an upgrade.
type StatusError struct{ Code int }

func (e *StatusError) Error() string {
	return fmt.Sprintf("ws: the server answered %d %s", e.Code, http.StatusText(e.Code))
}

// Dial opens a connection to a URL with the scheme ws or wss.
func Dial(ctx context.Context, url string, o DialOptions) (*Conn, Peer, error) {
	transport := &http.Transport{
		Proxy:             http.ProxyFromEnvironment,
		TLSClientConfig:   o.TLS.Clone(),
		DisableKeepAlives: true,
	}
	defer transport.CloseIdleConnections()
	var peer Peer
	trace := &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) {
		peer.Local, peer.Remote = i.Conn.LocalAddr(), i.Conn.RemoteAddr()
	}}
	upgrade := &upgrader{next: transport}
	c, resp, err := websocket.Dial(httptrace.WithClientTrace(ctx, trace), url, &websocket.DialOptions{
		HTTPClient:   &http.Client{Transport: upgrade},
		HTTPHeader:   o.Header,
		Subprotocols: o.Subprotocols,
	})
	if err != nil {
		if resp != nil && resp.StatusCode != http.StatusSwitchingProtocols {
			return nil, peer, &StatusError{Code: resp.StatusCode}
		}
		return nil, peer, err
	}
	if upgrade.body == nil {
		_ = c.CloseNow()
		return nil, peer, errors.New("ws: the HTTP client returned no writable body")
	}
	peer.TLS = resp.TLS
	conn := &Conn{ws: c, client: true, cork: &upgrade.body.cork, in: &upgrade.body.in, under: upgrade.body}
	return conn.limited(o.MessageBytesMax), peer, nil
}

// upgrader corks the connection that comes with a switch of protocols.
type upgrader struct {
	next http.RoundTripper
	body *corkBody
}

func (u *upgrader) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := u.next.RoundTrip(r)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		return resp, err
	}
	if rwc, ok := resp.Body.(io.ReadWriteCloser); ok {
		u.body = newCorkBody(rwc)
		resp.Body = u.body
	}
	return resp, nil
}
