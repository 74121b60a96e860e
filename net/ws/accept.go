package ws

import (
	"bufio"
	"bytes"
	"errors"
	stdnet "net"
	"net/http"

	"github.com/coder/websocket"
)

// AcceptOptions is how a server answers an opening handshake.
type AcceptOptions struct {
	// Subprotocols are those that the server speaks, in order of preference. The
	// connection's Subprotocol says which one was chosen, if any.
	Subprotocols []string
	// Origins lists hosts, as patterns of path.Match, whose pages may connect beside
	// those of the server's own host. "*" admits every page.
	Origins []string
	// MessageBytesMax bounds what Next returns.
	MessageBytesMax int
}

// Accept answers an opening handshake. On an error it has written the response.
func Accept(w http.ResponseWriter, r *http.Request, o AcceptOptions) (*Conn, error) {
	hijack := &hijacker{ResponseWriter: w}
	c, err := websocket.Accept(hijack, r, &websocket.AcceptOptions{
		Subprotocols:   o.Subprotocols,
		OriginPatterns: o.Origins,
	})
	if err != nil {
		return nil, err
	}
	conn := &Conn{ws: c, cork: &hijack.conn.cork, in: &hijack.conn.in, under: hijack.conn}
	return conn.limited(o.MessageBytesMax), nil
}

// hijacker hands out the server's connection with its writes corked.
type hijacker struct {
	http.ResponseWriter
	conn *corkConn
}

func (h *hijacker) Hijack() (stdnet.Conn, *bufio.ReadWriter, error) {
	under, ok := h.ResponseWriter.(http.Hijacker)
	if !ok {
		return nil, nil, errors.New("ws: this HTTP server cannot hand out its connection")
	}
	c, rw, err := under.Hijack()
	if err != nil {
		return nil, nil, err
	}
	// What has come right behind the handshake is read through the connection, too.
	early, err := rw.Reader.Peek(rw.Reader.Buffered())
	if err != nil {
		return nil, nil, err
	}
	h.conn = newCorkConn(c, bytes.Clone(early))
	rw.Reader.Reset(h.conn)
	rw.Writer.Reset(h.conn)
	return h.conn, rw, nil
}
