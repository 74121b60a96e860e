package admin

import (
	stdnet "net"
	"net/http"
	"strings"

	"github.com/mortarmq/mortarmq/wire"
)

// guard refuses requests over the loopback interface that name another host: a
// page from elsewhere whose name was made to lead to 127.0.0.1 could read and
// change everything through the browser of whoever sits at this machine. An
// address, localhost and the name in listen_admin are this host. Over any other
// interface the names that lead here are the network's, which nobody told us.
func (s *handler) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if overLoopback(r) && !s.isOurs(r.Host) {
			f := fail(wire.CodeAuthFailed, "the Host header names another host: ask by address, as localhost, or by the name in listen_admin")
			f.status = http.StatusForbidden
			f.reply(w)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// overLoopback says whether the request came to a loopback address.
func overLoopback(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(stdnet.Addr)
	if !ok {
		return false
	}
	tcp, ok := local.(*stdnet.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// isOurs says whether a Host header, which may have a port, names this host. Only
// a client that is no browser sends none.
func (s *handler) isOurs(host string) bool {
	name := hostOf(host)
	return name == "" || name == "localhost" || name == s.name || stdnet.ParseIP(name) != nil
}

// hostOf gives the host of host or host:port, without brackets and as names are
// compared.
func hostOf(address string) string {
	host, _, err := stdnet.SplitHostPort(address)
	if err != nil {
		host = strings.TrimSuffix(strings.TrimPrefix(address, "["), "]")
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}
