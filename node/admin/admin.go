// Package admin is the admin port: read paths of the command line and health,
// over HTTP (operations.md, "Admin HTTP").
//
// Every answer comes from the node's loop by a query, so what one answer says is
// one consistent state. Answers are JSON objects with the command line's column
// names as keys, lists under "items"; an error carries code, name and message.
//
// It changes nothing and asks for no token: bind it where only operators reach
// it.
package admin

import (
	"context"
	"encoding/json"
	"fmt"
	stdnet "net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/mortarmq/mortarmq/node"
	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/wire"
)

// queryTimeout bounds one request.
const queryTimeout = 5 * time.Second

// Querier asks the node.
type Querier interface {
	Query(ctx context.Context, q node.Query) (node.Answer, error)
}

// Server is the admin port.
type Server struct {
	q    Querier
	http *http.Server
	addr string
	done chan error
}

// Listen opens the port and serves until Close.
func Listen(addr string, q Querier) (*Server, error) {
	l, err := stdnet.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen_admin: %w", err)
	}
	s := &Server{q: q, addr: l.Addr().String(), done: make(chan error, 1)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", s.health)
	mux.HandleFunc("GET /readyz", s.health)
	mux.HandleFunc("GET /v1/broker", s.broker)
	mux.HandleFunc("GET /v1/topics", s.topics)
	mux.HandleFunc("GET /v1/topics/{name...}", s.topic)
	mux.HandleFunc("GET /v1/tail", s.tail)
	s.http = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
	go func() { s.done <- s.http.Serve(l) }()
	return s, nil
}

// Addr gives the address that is listened on.
func (s *Server) Addr() string { return s.addr }

// Close ends the port and every request under way.
func (s *Server) Close() {
	s.http.Close() // its error is the listener's, which is gone either way
	<-s.done
}

// Error is the body of an answer that is not a success.
type Error struct {
	Code    string `json:"code"`
	Name    string `json:"name"`
	Message string `json:"message"`
}

// Broker is the body of /v1/broker, /healthz and /readyz.
type Broker struct {
	NodeID      uint16 `json:"node_id"`
	UptimeS     int64  `json:"uptime_s"`
	Connections int    `json:"connections"`
	Version     string `json:"version"`
	Serving     bool   `json:"serving"`
	LeaderEpoch uint32 `json:"leader_epoch"`
	LastOp      uint64 `json:"last_op"`
	FreeBytes   int64  `json:"free_bytes"`
	LowSpace    bool   `json:"low_space"`
	Reason      string `json:"reason,omitempty"`
}

// Topic is an item of /v1/topics.
type Topic struct {
	Name         string   `json:"name"`
	Partitions   uint16   `json:"partitions"`
	State        string   `json:"state"`
	CreatedEpoch uint32   `json:"created_epoch"`
	TopicID      uint16   `json:"topic_id"`
	LastSeqs     []uint64 `json:"last_seqs"`
}

// Record is an item of /v1/tail. Key and Value are base64.
type Record struct {
	Partition   uint16 `json:"partition"`
	Sequence    uint64 `json:"sequence"`
	Time        string `json:"time"`
	ProducerID  uint64 `json:"producer_id"`
	ProducerSeq uint64 `json:"producer_seq"`
	Key         []byte `json:"key"`
	Value       []byte `json:"value"`
}

// Tail is the body of /v1/tail: Next goes into the next request's from.
type Tail struct {
	Items []Record `json:"items"`
	Next  []uint64 `json:"next"`
}

// List is a body with items.
type List[T any] struct {
	Items []T `json:"items"`
}

func (s *Server) ask(w http.ResponseWriter, r *http.Request, q node.Query) (node.Answer, bool) {
	ctx, cancel := context.WithTimeout(r.Context(), queryTimeout)
	defer cancel()
	a, err := s.q.Query(ctx, q)
	if err != nil {
		reply(w, http.StatusServiceUnavailable, Error{Code: "000A", Name: wire.CodeInternal.String(), Message: err.Error()})
		return a, false
	}
	if a.Code != wire.CodeOK {
		status := http.StatusServiceUnavailable
		if a.Code == wire.CodeUnknownTopic {
			status = http.StatusNotFound
		}
		info, _ := a.Code.Info()
		reply(w, status, Error{Code: fmt.Sprintf("%04X", uint16(a.Code)), Name: a.Code.String(), Message: info.Advice})
		return a, false
	}
	return a, true
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	_ = enc.Encode(body) // the reader went away: nobody is left to tell
}

func brokerBody(b *node.BrokerInfo) Broker {
	body := Broker{
		NodeID: b.NodeID, UptimeS: int64(b.Uptime) / int64(time.Second), Connections: b.Connections, Version: b.Version,
		Serving: b.Serving && !b.Stopping, LeaderEpoch: b.LeaderEpoch, LastOp: b.LastOp, FreeBytes: b.FreeBytes, LowSpace: b.LowSpace,
	}
	switch {
	case b.Stopping:
		body.Reason = "stopping"
	case !b.Serving:
		body.Reason = "recovering"
	case b.JournalStall:
		body.Reason = "the disk is full: nothing is acknowledged until space is freed"
		body.Serving = false
	case b.LowSpace:
		body.Reason = "free space is below storage_reserve: publishes are refused"
	}
	return body
}

func (s *Server) broker(w http.ResponseWriter, r *http.Request) {
	if a, ok := s.ask(w, r, node.Query{Kind: node.QueryBroker}); ok {
		reply(w, http.StatusOK, brokerBody(&a.Broker))
	}
}

func (s *Server) health(w http.ResponseWriter, r *http.Request) {
	a, ok := s.ask(w, r, node.Query{Kind: node.QueryBroker})
	if !ok {
		return
	}
	body := brokerBody(&a.Broker)
	status := http.StatusOK
	if !body.Serving {
		status = http.StatusServiceUnavailable
	}
	reply(w, status, body)
}

func topicBody(t *node.TopicInfo) Topic {
	return Topic{Name: t.Name, Partitions: t.Partitions, State: "active", CreatedEpoch: t.CreatedEpoch, TopicID: t.ID, LastSeqs: t.LastSeqs}
}

func (s *Server) topics(w http.ResponseWriter, r *http.Request) {
	a, ok := s.ask(w, r, node.Query{Kind: node.QueryTopics})
	if !ok {
		return
	}
	list := List[Topic]{Items: []Topic{}}
	for i := range a.Topics {
		list.Items = append(list.Items, topicBody(&a.Topics[i]))
	}
	reply(w, http.StatusOK, list)
}

func (s *Server) topic(w http.ResponseWriter, r *http.Request) {
	if a, ok := s.ask(w, r, node.Query{Kind: node.QueryTopic, Topic: r.PathValue("name")}); ok {
		reply(w, http.StatusOK, topicBody(&a.Topics[0]))
	}
}

// tail takes topic, from (comma-separated, one per partition), back and max.
func (s *Server) tail(w http.ResponseWriter, r *http.Request) {
	q, err := tailQuery(r)
	if err != nil {
		reply(w, http.StatusBadRequest, Error{Code: "0003", Name: wire.CodeMalformedPayload.String(), Message: err.Error()})
		return
	}
	a, ok := s.ask(w, r, q)
	if !ok {
		return
	}
	body := Tail{Items: []Record{}, Next: a.Next}
	for i := range a.Records {
		body.Items = append(body.Items, recordBody(a.Partitions[i], &a.Records[i]))
	}
	reply(w, http.StatusOK, body)
}

func tailQuery(r *http.Request) (node.Query, error) {
	v := r.URL.Query()
	q := node.Query{Kind: node.QueryTail, Topic: v.Get("topic"), Max: 100}
	var err error
	if q.Topic == "" {
		return q, fmt.Errorf("topic is missing")
	}
	if s := v.Get("max"); s != "" {
		if q.Max, err = strconv.Atoi(s); err != nil || q.Max < 1 {
			return q, fmt.Errorf("max is not a positive number")
		}
	}
	if s := v.Get("back"); s != "" {
		if q.Back, err = strconv.ParseUint(s, 10, 64); err != nil {
			return q, fmt.Errorf("back is not a number")
		}
	}
	if s := v.Get("from"); s != "" {
		for _, part := range strings.Split(s, ",") {
			n, err := strconv.ParseUint(part, 10, 64)
			if err != nil {
				return q, fmt.Errorf("from is not a list of numbers")
			}
			q.From = append(q.From, n)
		}
	}
	return q, nil
}

func recordBody(partition uint16, r *format.Record) Record {
	return Record{
		Partition: partition, Sequence: uint64(r.Sequence), Time: time.UnixMilli(int64(r.Timestamp)).UTC().Format("2006-01-02T15:04:05.000Z"),
		ProducerID: r.ProducerID, ProducerSeq: r.ProducerSeq, Key: r.Key, Value: r.Value,
	}
}
