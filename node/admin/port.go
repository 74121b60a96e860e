package admin

import (
	"errors"
	"fmt"
	stdnet "net"
	"net/http"
	"strings"
	"syscall"
	"time"
)

// Bind takes the port of addr, HOST:PORT. Who connects before Serve waits for it.
func Bind(addr string) (stdnet.Listener, error) {
	l, err := stdnet.Listen("tcp", addr)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("listen_admin: address in use: another program listens on %s: stop it, or choose another address", addr)
	case err != nil:
		return nil, fmt.Errorf("listen_admin: cannot listen on %s: %w", addr, err)
	}
	return l, nil
}

// Serve serves on l, that addr gave, until Close.
func Serve(l stdnet.Listener, addr string, q Querier, o Options) *Server {
	s := &Server{handler: handler{q: q, o: o, process: processMetrics(), name: hostOf(addr)}, addr: l.Addr().String(), done: make(chan error, 1)}
	s.http = &http.Server{Handler: s.mux(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
	go func() { s.done <- s.http.Serve(l) }()
	return s
}

// Handler gives what the port serves, for tests.
func Handler(q Querier, o Options) http.Handler {
	h := handler{q: q, o: o, process: processMetrics()}
	return h.mux()
}

// route is a path of the port and what it is for.
type route struct {
	pattern string // of net/http
	about   string
	serve   http.HandlerFunc
}

func (s *handler) routes() []route {
	routes := []route{
		{"GET /healthz", "whether an operator is needed: 200 or 503 with level and reason", func(w http.ResponseWriter, r *http.Request) { s.health(w, r, false) }},
		{"GET /readyz", "whether clients are served: 200 or 503", func(w http.ResponseWriter, r *http.Request) { s.health(w, r, true) }},
		{"GET /stats", "?topic=T, ?group=G or ?section=broker|connections|delivery|journal|rejected", s.stats},
		{"GET /v1/broker", "the broker", s.broker},
		{"GET /v1/leader", "who leads", s.leader},
		{"GET /v1/topics", "the topics", s.topics},
		{"GET /v1/topics/{name...}", "a topic", s.topic},
		{"GET /v1/tail", "?topic=T&back=N or &from=1,1, &max=N: records without a group", s.tail},
		{"GET /v1/groups", "?topic=T: the groups", s.groups},
		{"GET /v1/groups/{name}", "a group, with an item per partition", s.group},
		{"POST /v1/groups/{name}/reset", "?to=earliest|latest|SEQ|TIME: move a group without members", s.change(s.groupReset)},
		{"DELETE /v1/groups/{name}", "delete a group without members", s.change(s.groupDelete)},
		{"GET /v1/dlq", "?topic=T&state=live: dead letters", s.deadLetters},
		{"POST /v1/dlq/{name}/redrive", "publish dead letters back", s.change(s.redrive)},
		{"POST /v1/dlq/{name}/purge", "give dead letters up", s.change(s.purge)},
		{"GET /v1/explain", "?topic=T&partition=P&group=G: what holds a partition up", s.explain},
	}
	if !s.o.NoMetrics {
		routes = append(routes, route{"GET /metrics", "for Prometheus", s.metrics})
	}
	return routes
}

func (s *handler) mux() http.Handler {
	mux := http.NewServeMux()
	var index strings.Builder
	index.WriteString("MortarMQ, the admin port\n\n")
	for _, r := range s.routes() {
		mux.HandleFunc(r.pattern, r.serve)
		fmt.Fprintf(&index, "%-32s %s\n", strings.ReplaceAll(r.pattern, "...", ""), r.about)
	}
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte(index.String())) // the reader went away: nobody is left to tell
	})
	return s.guard(standIn(mux))
}
