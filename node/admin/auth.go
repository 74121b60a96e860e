package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"
	"time"

	"github.com/mortarmq/mortarmq/wire"
)

// authFailPause is how long a wrong token waits for its refusal (errors.md, 0006).
const authFailPause = wire.AuthFailDelayMillis * time.Millisecond

// change lets only those through who may change something: with a token that is
// configured, and not out of a page that a browser loaded from elsewhere.
func (s *handler) change(next http.HandlerFunc) http.HandlerFunc {
	origin := http.NewCrossOriginProtection()
	return func(w http.ResponseWriter, r *http.Request) {
		if err := origin.Check(r); err != nil {
			f := fail(wire.CodeAuthFailed, "a page of another origin may not change anything here")
			f.status = http.StatusForbidden
			f.reply(w)
			return
		}
		if !s.admits(r) {
			select {
			case <-time.After(authFailPause):
			case <-r.Context().Done():
			}
			w.Header().Set("WWW-Authenticate", "Bearer")
			fail(wire.CodeAuthFailed, "changes need a client's token: Authorization: Bearer TOKEN (mortarmq: --token-file)").reply(w)
			return
		}
		next(w, r)
	}
}

// admits compares the token's digest with every one that is configured, in
// constant time.
func (s *handler) admits(r *http.Request) bool {
	if len(s.o.TokenDigests) == 0 {
		return true
	}
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return false
	}
	digest := sha256.Sum256([]byte(token))
	found := 0
	for i := range s.o.TokenDigests {
		found |= subtle.ConstantTimeCompare(digest[:], s.o.TokenDigests[i][:])
	}
	return found == 1
}
