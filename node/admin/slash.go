package admin

import (
	"net/http"
	"net/url"
	"strings"
)

// A name may be a slash alone, and net/http's mux takes a segment of the path that
// is one, escaped as %2F, for the path's end. A NUL, which no name has, stands for
// it on the way through the mux.
const (
	slash        = "%2F"
	slashStandIn = "%00"
)

// standIn brings a request past the mux: name takes the stand-ins back.
func standIn(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		segments := strings.Split(r.URL.EscapedPath(), "/")
		alone := false
		for i, s := range segments {
			if strings.Contains(s, slashStandIn) {
				http.NotFound(w, r)
				return
			}
			if strings.EqualFold(s, slash) {
				segments[i], alone = slashStandIn, true
			}
		}
		if alone {
			u, inner := *r.URL, *r
			u.RawPath = strings.Join(segments, "/")
			u.Path, _ = url.PathUnescape(u.RawPath) // what was a path with %2F is one with %00
			inner.URL = &u
			r = &inner
		}
		next.ServeHTTP(w, r)
	})
}

// name gives the topic or group that the path names.
func name(r *http.Request) string {
	n := r.PathValue("name")
	if n == "\x00" {
		return "/"
	}
	return n
}
