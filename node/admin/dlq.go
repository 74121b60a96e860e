package admin

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/mortarmq/mortarmq/node"
	"github.com/mortarmq/mortarmq/node/op"
)

// DeadLetter is an item of /v1/dlq. Partition and Sequence are its place in the
// twin, the rest up to Time is from its envelope; Key and Value are base64 and
// there only if values=true.
type DeadLetter struct {
	Partition       uint16 `json:"partition"`
	Sequence        uint64 `json:"sequence"`
	State           string `json:"state"`
	SourcePartition uint16 `json:"source_partition"`
	SourceSequence  uint64 `json:"source_sequence"`
	Group           string `json:"group"`
	Attempts        uint32 `json:"attempts"`
	Reason          string `json:"reason"`
	Time            string `json:"time"`
	ProducerID      uint64 `json:"producer_id"`
	ProducerSeq     uint64 `json:"producer_seq"`
	Key             []byte `json:"key,omitempty"`
	Value           []byte `json:"value,omitempty"`
}

// DeadLetters is the body of /v1/dlq. Unless Done, Next goes into the next
// request's from.
type DeadLetters struct {
	Items []DeadLetter `json:"items"`
	Next  []uint64     `json:"next"`
	Done  bool         `json:"done"`
}

// Redriven is the body of a redrive's answer.
type Redriven struct {
	Redriven uint64 `json:"redriven"`
	Skipped  uint64 `json:"skipped"`
}

// Purged is the body of a purge's answer.
type Purged struct {
	Purged uint64 `json:"purged"`
}

// redriveStep is how many dead letters one query redrives: what other queries
// and clients wait for at most.
const redriveStep = 500

// deadLetters takes topic, state (live, redriven, purged or all; live if it is
// missing), values=true, from and max.
func (s *handler) deadLetters(w http.ResponseWriter, r *http.Request) {
	q, f := deadLettersQuery(r.URL.Query())
	if f != nil {
		f.reply(w)
		return
	}
	a, ok := s.ask(w, r, q)
	if !ok {
		return
	}
	body := DeadLetters{Items: []DeadLetter{}, Next: a.Next, Done: a.Done}
	for i := range a.DeadLetters {
		body.Items = append(body.Items, deadLetterBody(&a.DeadLetters[i]))
	}
	reply(w, http.StatusOK, body)
}

func deadLettersQuery(v url.Values) (node.Query, *failure) {
	q := node.Query{Kind: node.QueryDeadLetters, Topic: v.Get("topic"), Max: 100, Values: v.Get("values") == "true"}
	if q.Topic == "" {
		return q, bad("topic is missing")
	}
	switch state := v.Get("state"); state {
	case "live", "":
		q.States = node.DeadLettersLive
	case "redriven":
		q.States = node.DeadLettersRedriven
	case "purged":
		q.States = node.DeadLettersPurged
	case "all":
	default:
		return q, bad("state is live, redriven, purged or all, not %q", state)
	}
	if m := v.Get("max"); m != "" {
		var err error
		if q.Max, err = strconv.Atoi(m); err != nil || q.Max < 1 {
			return q, bad("max is not a positive number")
		}
	}
	var err error
	if q.From, err = sequences(v.Get("from"), "from"); err != nil {
		return q, bad("%v", err)
	}
	return q, nil
}

func deadLetterBody(d *node.DeadLetter) DeadLetter {
	b := DeadLetter{
		Partition: d.Partition, Sequence: uint64(d.Record.Sequence), State: d.State, Reason: "unreadable",
		ProducerID: d.Record.ProducerID, ProducerSeq: d.Record.ProducerSeq, Key: d.Record.Key, Value: d.Record.Value,
	}
	if d.Unreadable {
		return b
	}
	e := &d.Envelope
	b.SourcePartition, b.SourceSequence, b.Group, b.Attempts = uint16(e.Partition), uint64(e.Sequence), string(e.GroupName), e.Attempts
	b.Time = timeOf(e.Time)
	switch e.Reason {
	case op.CauseAttempts:
		b.Reason = "attempts"
	case op.CauseReject:
		b.Reason = "rejected"
	}
	return b
}

// redrive goes from query to query until what was there when it began is done.
func (s *handler) redrive(w http.ResponseWriter, r *http.Request) {
	q := node.Query{Kind: node.QueryRedrive, Topic: name(r), Max: redriveStep}
	var body Redriven
	for {
		a, f := s.query(r.Context(), q, changeTimeout)
		body.Redriven += a.Redriven
		body.Skipped += a.Skipped
		if f != nil {
			if body.Redriven > 0 {
				f.Message += fmt.Sprintf("; %d were redriven before, redrive again for the rest", body.Redriven)
			}
			f.reply(w)
			return
		}
		if a.Done {
			reply(w, http.StatusOK, body)
			return
		}
		q.From, q.Until = a.Next, a.Until
	}
}

func (s *handler) purge(w http.ResponseWriter, r *http.Request) {
	a, f := s.query(r.Context(), node.Query{Kind: node.QueryPurge, Topic: name(r)}, changeTimeout)
	if f != nil {
		f.reply(w)
		return
	}
	reply(w, http.StatusOK, Purged{a.Purged})
}
