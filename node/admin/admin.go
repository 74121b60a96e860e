// Package admin is the admin port: what operators ask and change, health and
// metrics, over HTTP (operations.md, "Admin HTTP").
//
// The life of a request: it becomes a query of the node, whose answer comes from
// one turn of its loop, so what one answer says is one consistent state; a scrape
// of /metrics is one query too. Answers are JSON objects with the command line's
// column names as keys, lists under "items"; an error carries code, name and
// message.
//
// Changes (POST, DELETE) are ops in the log like a client's, and are answered
// when they are applied. They need a client's token where tokens are configured
// (auth.go); what only looks asks for none: bind the port where only operators
// reach it.
package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mortarmq/mortarmq/node"
	"github.com/mortarmq/mortarmq/wire"
)

const (
	// queryTimeout bounds one question to the node.
	queryTimeout = 5 * time.Second
	// changeTimeout bounds one change, or one step of a redrive.
	changeTimeout = 30 * time.Second
)

// Querier asks the node.
type Querier interface {
	Query(ctx context.Context, q node.Query) (node.Answer, error)
}

// Options are what an admin port needs beside the node. The zero value works.
type Options struct {
	// TokenDigests are SHA-256 digests of the tokens that may change something.
	// None: whoever reaches the port may.
	TokenDigests [][32]byte
	// NoMetrics takes /metrics away.
	NoMetrics bool
}

// Server is the admin port.
type Server struct {
	handler
	http *http.Server
	addr string
	done chan error
}

// handler serves the requests of the port.
type handler struct {
	q       Querier
	o       Options
	process prometheus.Gatherer
	name    string // host in the address that is listened on
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
	// Level is healthy, or how far it is from that: low_space, damaged, disk_full,
	// recovering, stopping. Reason says it in words.
	Level   string   `json:"level"`
	Reason  string   `json:"reason,omitempty"`
	Damaged []Damage `json:"damaged,omitempty"`
}

// Damage is a partition that takes nothing new. DiagnosticID stands in the log
// line that names the place, and in the errors that come of it.
type Damage struct {
	Topic        string `json:"topic"`
	Partition    uint16 `json:"partition"`
	DiagnosticID string `json:"diagnostic_id"`
	Path         string `json:"path"`
	Offset       int64  `json:"offset"`
	Sequence     uint64 `json:"sequence"`
	What         string `json:"what"`
}

func (d Damage) String() string {
	return fmt.Sprintf("%s offset %d sequence %d: %s; diagnostic id %s", d.Path, d.Offset, d.Sequence, d.What, d.DiagnosticID)
}

func damageBodies(list []node.DamageInfo) []Damage {
	var bodies []Damage
	for i := range list {
		bodies = append(bodies, Damage(list[i]))
	}
	return bodies
}

// topicStates are what State of a topic says.
const (
	topicActive             = "active"
	topicDamaged            = "damaged"
	topicDeadLettersDamaged = "dlq_damaged"
)

// Topic is an item of /v1/topics.
type Topic struct {
	Name         string   `json:"name"`
	Partitions   uint16   `json:"partitions"`
	State        string   `json:"state"`
	CreatedEpoch uint32   `json:"created_epoch"`
	TopicID      uint16   `json:"topic_id"`
	LastSeqs     []uint64 `json:"last_seqs"`
	Damaged      []Damage `json:"damaged,omitempty"`
}

// List is a body with items.
type List[T any] struct {
	Items []T `json:"items"`
}

// failure is an answer that is not a success.
type failure struct {
	status int
	Error
}

// query asks the node, for so long.
func (s *handler) query(ctx context.Context, q node.Query, limit time.Duration) (node.Answer, *failure) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	a, err := s.q.Query(ctx, q)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return a, fail(wire.CodeInternal, fmt.Sprintf("the broker did not answer within %v; a change may still be carried out", limit))
	case err != nil:
		return a, fail(wire.CodeInternal, err.Error())
	case a.Code != wire.CodeOK:
		return a, fail(a.Code, a.Message)
	}
	return a, nil
}

// fail makes a failure of a code; an empty text stands for the registry's.
func fail(code wire.Code, text string) *failure {
	if text == "" {
		info, _ := code.Info()
		text = info.Advice
	}
	status := http.StatusServiceUnavailable
	switch code {
	case wire.CodeUnknownTopic, wire.CodeUnknownPartition, wire.CodeUnknownGroup:
		status = http.StatusNotFound
	case wire.CodeGroupMemberLimit, wire.CodeGroupExistsMismatch:
		status = http.StatusConflict
	case wire.CodeMalformedPayload:
		status = http.StatusBadRequest
	case wire.CodeAuthFailed:
		status = http.StatusUnauthorized
	}
	return &failure{status, Error{Code: fmt.Sprintf("%04X", uint16(code)), Name: code.String(), Message: text}}
}

// bad is the failure of a request that makes no sense.
func bad(format string, args ...any) *failure {
	return fail(wire.CodeMalformedPayload, fmt.Sprintf(format, args...))
}

func (f *failure) reply(w http.ResponseWriter) { reply(w, f.status, f.Error) }

// ask asks the node and replies by itself where that fails.
func (s *handler) ask(w http.ResponseWriter, r *http.Request, q node.Query) (node.Answer, bool) {
	a, f := s.query(r.Context(), q, queryTimeout)
	if f != nil {
		f.reply(w)
	}
	return a, f == nil
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
	body.Damaged = damageBodies(b.Damaged)
	switch {
	case b.Stopping:
		body.Level, body.Reason = "stopping", "stopping"
	case !b.Serving:
		body.Level, body.Reason = "recovering", "recovering"
	case b.JournalStall:
		body.Level, body.Reason = "disk_full", "the disk is full: nothing is acknowledged until space is freed"
		body.Serving = false
	case len(b.Damaged) > 0:
		body.Level, body.Reason = levelDamaged, damagedReason(b.Damaged)
	case b.LowSpace:
		body.Level, body.Reason = "low_space", "free space is below storage_reserve: publishes are refused"
	default:
		body.Level = "healthy"
	}
	return body
}

const levelDamaged = "damaged"

func damagedReason(list []node.DamageInfo) string {
	first, others := &list[0], ""
	if n := len(list) - 1; n > 0 {
		others = fmt.Sprintf(", and so are %d others", n)
	}
	return fmt.Sprintf("partition %d of %s is damaged and takes nothing new (diagnostic id %s)%s; the rest is served", first.Partition, first.Topic, first.DiagnosticID, others)
}

func (s *handler) broker(w http.ResponseWriter, r *http.Request) {
	if a, ok := s.ask(w, r, node.Query{Kind: node.QueryBroker}); ok {
		reply(w, http.StatusOK, brokerBody(&a.Broker))
	}
}

// health says whether all is well, or, for readiness, whether clients are served:
// with a damaged partition the rest of them is, and starting again mends nothing.
func (s *handler) health(w http.ResponseWriter, r *http.Request, readiness bool) {
	a, ok := s.ask(w, r, node.Query{Kind: node.QueryBroker})
	if !ok {
		return
	}
	body := brokerBody(&a.Broker)
	status := http.StatusOK
	if !body.Serving || body.Level == levelDamaged && !readiness {
		status = http.StatusServiceUnavailable
	}
	reply(w, status, body)
}

func topicBody(t *node.TopicInfo) Topic {
	body := Topic{Name: t.Name, Partitions: t.Partitions, State: topicActive, CreatedEpoch: t.CreatedEpoch, TopicID: t.ID, LastSeqs: t.LastSeqs}
	switch {
	case len(t.Damaged) > 0:
		body.State = topicDamaged
	case len(t.DeadLettersDamaged) > 0:
		body.State = topicDeadLettersDamaged
	}
	body.Damaged = append(damageBodies(t.Damaged), damageBodies(t.DeadLettersDamaged)...)
	return body
}

func (s *handler) topics(w http.ResponseWriter, r *http.Request) {
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

func (s *handler) topic(w http.ResponseWriter, r *http.Request) {
	if a, ok := s.ask(w, r, node.Query{Kind: node.QueryTopic, Topic: name(r)}); ok {
		reply(w, http.StatusOK, topicBody(&a.Topics[0]))
	}
}
