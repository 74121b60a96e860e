package admin

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/mortarmq/mortarmq/client"
	"github.com/mortarmq/mortarmq/node"
	"github.com/mortarmq/mortarmq/node/host"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/node/session"
	"github.com/mortarmq/mortarmq/node/store"
)

// broker is a real broker with its admin port on a test server.
type broker struct {
	t      *testing.T
	host   *host.Host
	addr   string
	server *httptest.Server
	token  string
	client *client.Client
}

func newBroker(t *testing.T, o Options, token string) *broker {
	t.Helper()
	h, err := host.Open(host.Options{
		DataDir: t.TempDir(), ListenClient: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler),
		Node: node.Config{
			NewClusterID: [16]byte{1}, Version: "test", Session: session.Config{TokenDigests: o.TokenDigests},
			Settings: op.Settings{DeliveryMaxAttempts: 2, RetryBackoffBaseMs: 100, PartitionDefaultCount: 2},
			Store:    store.Options{NodeID: 1, JournalFileBytes: 4 << 20, ReservePercent: -1, ReserveBytes: -1},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- h.Run(context.Background()) }()
	b := &broker{t: t, host: h, addr: h.ClientAddr(), server: httptest.NewServer(Handler(h, o)), token: token}
	t.Cleanup(func() {
		if b.client != nil {
			b.client.Close()
		}
		h.Stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		b.server.Close()
		h.Close()
	})
	b.client, err = client.Dial(context.Background(), client.Options{Addrs: []string{b.addr}, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// call makes a request and decodes the answer's body.
func (b *broker) call(method, path, token string, body any) int {
	b.t.Helper()
	req, err := http.NewRequest(method, b.server.URL+path, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return b.do(req, body)
}

func (b *broker) do(req *http.Request, body any) int {
	b.t.Helper()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	if body != nil {
		if err := json.Unmarshal(data, body); err != nil {
			b.t.Fatalf("%s %s: %v in %s", req.Method, req.URL, err, data)
		}
	}
	return resp.StatusCode
}

// get is call for what must succeed.
func (b *broker) get(path string, body any) {
	b.t.Helper()
	if status := b.call("GET", path, "", body); status != http.StatusOK {
		b.t.Fatalf("GET %s: %d %+v", path, status, body)
	}
}

func (b *broker) publish(topic string, n int) {
	b.t.Helper()
	ctx := context.Background()
	p, err := b.client.Producer(ctx, topic, client.ProducerOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	for i := range n {
		if _, err := p.Publish(ctx, client.Message{Key: fmt.Append(nil, i), Value: fmt.Append(nil, "value ", i)}); err != nil {
			b.t.Fatal(err)
		}
	}
	if err := p.Close(ctx); err != nil {
		b.t.Fatal(err)
	}
}

// consume runs a consumer until it has handled n messages.
func (b *broker) consume(topic, group string, n int, handle func(*client.Delivery) error) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	c, err := b.client.Consumer(ctx, topic, group, client.ConsumerOptions{RetryBackoffMax: time.Second})
	if err != nil {
		b.t.Fatal(err)
	}
	var handled atomic.Int64
	enough := make(chan struct{})
	go func() {
		select {
		case <-enough:
			c.Stop(ctx)
		case <-ctx.Done():
		}
	}()
	err = c.Run(ctx, func(_ context.Context, d *client.Delivery) error {
		err := handle(d)
		if handled.Add(1) == int64(n) {
			close(enough)
		}
		return err
	})
	if err != nil {
		b.t.Fatalf("%d of %d messages: %v", handled.Load(), n, err)
	}
}

var errBad = errors.New("bad")

// scrape gives the samples of a scrape by their name and labels.
func (b *broker) scrape() map[string]float64 {
	b.t.Helper()
	resp, err := http.Get(b.server.URL + "/metrics")
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	p := expfmt.NewTextParser(model.UTF8Validation)
	families, err := p.TextToMetricFamilies(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		b.t.Fatalf("%s %v", resp.Status, err)
	}
	samples := map[string]float64{}
	for name, f := range families {
		for _, m := range f.Metric {
			key := name
			for _, l := range m.Label {
				key += " " + l.GetName() + "=" + l.GetValue()
			}
			switch {
			case m.Gauge != nil:
				samples[key] = m.Gauge.GetValue()
			case m.Counter != nil:
				samples[key] = m.Counter.GetValue()
			case m.Histogram != nil:
				samples[key] = float64(m.Histogram.GetSampleCount())
			}
		}
	}
	return samples
}

// Goal: every metric of operations.md is there with its labels after some of
// everything has happened, and each scrape adds up.
func TestMetrics(t *testing.T) {
	b := newBroker(t, Options{}, "")
	b.publish("orders", 20)
	rejected := 0
	b.consume("orders", "g", 20, func(d *client.Delivery) error {
		if rejected++; rejected <= 3 {
			return client.Reject(errBad)
		}
		return nil
	})
	s := b.scrape()
	labels := " group=g topic=orders"
	for name, want := range map[string]float64{
		"mortarmq_topic_messages_produced_total topic=orders": 20, "mortarmq_topic_messages_delivered_total" + labels: 17,
		"mortarmq_topic_messages_dropped_total" + labels: 3, "mortarmq_topic_messages_dlq_total" + labels: 3,
		"mortarmq_group_lag" + labels: 0, "mortarmq_group_in_flight" + labels: 0, "mortarmq_group_start" + labels: 0,
		"mortarmq_group_retries_total" + labels: 0, "mortarmq_quorum_state": 0, "mortarmq_leader_epoch": 1, "mortarmq_connections": 1,
		"mortarmq_topic_messages_produced_total topic=orders.dlq": 3, "mortarmq_group_members" + labels: 0,
	} {
		if got, ok := s[name]; !ok || got != want {
			t.Errorf("%s is %v (%v), want %v", name, got, ok, want)
		}
	}
	if got := s["mortarmq_partition_last_seq partition=0 topic=orders"] + s["mortarmq_partition_last_seq partition=1 topic=orders"]; got != 20 {
		t.Errorf("last_seqs add up to %v", got)
	}
	for _, name := range []string{
		"mortarmq_broker_uptime_seconds", "mortarmq_topic_bytes_total topic=orders", "mortarmq_partition_depth partition=0 topic=orders",
		"mortarmq_e2e_latency_ms quantile=p50", "mortarmq_e2e_latency_ms quantile=p90", "mortarmq_e2e_latency_ms quantile=p99",
		"mortarmq_journal_flush_seconds", "mortarmq_journal_batch_bytes", "mortarmq_checkpoint_op", "go_goroutines",
	} {
		if _, ok := s[name]; !ok {
			t.Errorf("%s is missing", name)
		}
	}
	off := newBroker(t, Options{NoMetrics: true}, "")
	if status := off.call("GET", "/metrics", "", nil); status != http.StatusNotFound {
		t.Fatalf("metrics that are switched off: %d", status)
	}
}

// Goal: docs/operations.md names the metrics that there are, and no others.
func TestMetricsDocs(t *testing.T) {
	data, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	one := prometheus.NewRegistry()
	one.MustRegister(scrape{&node.Stats{
		Topics: []node.TopicStats{{Name: "t", Partitions: []node.PartitionStats{{}}}}, Groups: []node.GroupStats{{Name: "g", HasOldest: true}},
		Rejected: []node.CodeCount{{}}, LatencyCount: 1, Journal: node.JournalStats{CheckpointOp: 1},
	}})
	families, err := one.Gather()
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{}
	for _, f := range families {
		there[f.GetName()] = true
		if !strings.Contains(string(data), "`"+f.GetName()+"`") {
			t.Errorf("docs/operations.md lacks %s", f.GetName())
		}
	}
	for _, name := range regexp.MustCompile("`(mortarmq_[a-z0-9_]+)`").FindAllStringSubmatch(string(data), -1) {
		if !there[name[1]] {
			t.Errorf("docs/operations.md names %s, which there is not", name[1])
		}
	}
}

// Goal: read paths answer with the documented keys; refusals have the right
// status, code and name.
func TestReads(t *testing.T) {
	b := newBroker(t, Options{}, "")
	b.publish("orders", 40)
	var handled atomic.Int64
	b.consume("orders", "team/a b", 1, func(*client.Delivery) error {
		if handled.Add(1) == 1 {
			return client.Reject(errBad)
		}
		return client.Release(errBad)
	})
	for path, keys := range map[string]string{
		"/v1/groups":                                 "assignment_epoch group lag members membership_epoch state topic",
		"/v1/groups?topic=orders":                    "assignment_epoch group lag members membership_epoch state topic",
		"/v1/dlq?topic=orders":                       "attempts group partition producer_id producer_seq reason sequence source_partition source_sequence state time",
		"/v1/dlq?topic=orders&values=true&state=all": "attempts group key partition producer_id producer_seq reason sequence source_partition source_sequence state time value",
		"/v1/groups/team%2Fa%20b":                    "assignment_epoch floor lag last_seq member ownership_epoch partition",
	} {
		var body List[map[string]any]
		b.get(path, &body)
		if len(body.Items) == 0 {
			t.Fatalf("%s: nothing", path)
		}
		if got := sortedKeys(body.Items[0]); got != keys {
			t.Errorf("%s: %s", path, got)
		}
	}
	docs, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	var broker map[string]any
	b.get("/v1/broker", &broker)
	for key := range broker {
		if row := regexp.MustCompile(`(?m)^\| ` + "`/v1/broker`" + `.*\b` + key + `\b`); !row.Match(docs) {
			t.Errorf("docs/operations.md: /v1/broker lacks %s", key)
		}
	}
	resp, err := http.Get(b.server.URL + "/")
	if err != nil {
		t.Fatal(err)
	}
	index, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(index), "GET /v1/topics/{name} ") || !strings.Contains(string(index), "GET /metrics ") {
		t.Fatalf("%v %s %s", err, resp.Status, index)
	}
	if status := b.call("GET", "/v2", "", nil); status != http.StatusNotFound {
		t.Errorf("a path that there is not: %d", status)
	}
	var leader Leader
	b.get("/v1/leader", &leader)
	if leader != (Leader{1, 1, "healthy"}) {
		t.Fatalf("%+v", leader)
	}
	var x List[Explanation]
	b.get("/v1/explain?topic=orders&partition=1", &x)
	if len(x.Items) != 1 || x.Items[0].Holds != "no_members" || x.Items[0].Group != "team/a b" {
		t.Fatalf("%+v", x)
	}
	for _, tc := range []struct {
		path   string
		status int
		name   string
	}{
		{"/v1/groups/nobody", 404, "UNKNOWN_GROUP"},
		{"/v1/groups?topic=x", 404, "UNKNOWN_TOPIC"},
		{"/v1/explain?topic=orders&partition=9", 404, "UNKNOWN_PARTITION"},
		{"/v1/explain?topic=orders", 400, "MALFORMED_PAYLOAD"},
		{"/v1/explain?topic=orders.dlq&partition=0&group=team%2Fa%20b", 409, "GROUP_EXISTS_MISMATCH"},
		{"/v1/dlq", 400, "MALFORMED_PAYLOAD"},
		{"/v1/dlq?topic=orders&state=odd", 400, "MALFORMED_PAYLOAD"},
		{"/stats", 400, "MALFORMED_PAYLOAD"},
		{"/stats?topic=orders&group=g", 400, "MALFORMED_PAYLOAD"},
		{"/stats?section=odd", 400, "MALFORMED_PAYLOAD"},
		{"/stats?group=odd", 404, "UNKNOWN_GROUP"},
	} {
		var e Error
		if status := b.call("GET", tc.path, "", &e); status != tc.status || e.Name != tc.name || e.Message == "" || status == 409 && !strings.Contains(e.Message, "reads topic orders: ") {
			t.Errorf("%s: %d %+v", tc.path, status, e)
		}
	}
}

// Goal: /stats gives what its filter asks for and nothing else.
func TestStats(t *testing.T) {
	b := newBroker(t, Options{}, "")
	b.publish("orders", 3)
	b.publish("other", 1)
	b.consume("orders", "g", 3, func(*client.Delivery) error { return nil })
	var s Stats
	b.get("/stats?topic=orders", &s)
	if len(s.Topics) != 1 || s.Topics[0].Produced != 3 || len(s.Groups) != 1 || s.Groups[0].Delivered != 3 || s.Journal != nil {
		t.Fatalf("%+v", s)
	}
	s = Stats{}
	b.get("/stats?group=g", &s)
	if len(s.Topics) != 1 || len(s.Groups) != 1 || s.Groups[0].Lag != 0 || s.Groups[0].OldestMs != nil {
		t.Fatalf("%+v", s)
	}
	for _, section := range []string{"broker", "connections", "delivery", "journal", "rejected"} {
		var raw map[string]any
		b.get("/stats?section="+section, &raw)
		if len(raw) > 1 || section != "rejected" && raw[section] == nil {
			t.Errorf("%s: %v", section, raw)
		}
	}
}

func sortedKeys(m map[string]any) string {
	data, _ := json.Marshal(m) // sorts them
	dec := json.NewDecoder(strings.NewReader(string(data)))
	var keys []string
	for depth := 0; ; {
		t, err := dec.Token()
		if err != nil {
			return strings.Join(keys, " ")
		}
		switch t := t.(type) {
		case json.Delim:
			if t == '{' {
				depth++
			}
		case string:
			if depth == 1 {
				keys = append(keys, t)
				dec.Token()
			}
		}
	}
}

// Goal: changes need a token that is configured, and cannot be made out of a
// browser's page of another origin; reads need none.
func TestTokens(t *testing.T) {
	b := newBroker(t, Options{TokenDigests: [][32]byte{sha256.Sum256([]byte("first")), sha256.Sum256([]byte("second"))}}, "second")
	b.publish("orders", 2)
	b.consume("orders", "g", 2, func(*client.Delivery) error { return client.Reject(errBad) })
	changes := [][2]string{
		{"POST", "/v1/dlq/orders/redrive"}, {"POST", "/v1/dlq/orders/purge"}, {"POST", "/v1/groups/g/reset?to=latest"}, {"DELETE", "/v1/groups/g"},
	}
	for _, c := range changes {
		for _, token := range []string{"", "third", "secon", "Second"} {
			var e Error
			if status := b.call(c[0], c[1], token, &e); status != http.StatusUnauthorized || e.Name != "AUTH_FAILED" || e.Code != "0006" {
				t.Fatalf("%v with %q: %d %+v", c, token, status, e)
			}
		}
		req, err := http.NewRequest(c[0], b.server.URL+c[1], nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer second")
		req.Header.Set("Origin", "https://elsewhere.example")
		if status := b.do(req, nil); status != http.StatusForbidden {
			t.Fatalf("%v from elsewhere: %d", c, status)
		}
	}
	var l DeadLetters
	b.get("/v1/dlq?topic=orders", &l)
	if len(l.Items) != 2 {
		t.Fatalf("what was refused had an effect: %+v", l)
	}
	for _, c := range changes {
		if status := b.call(c[0], c[1], "second", nil); status != http.StatusOK {
			t.Fatalf("%v: %d", c, status)
		}
	}
}

// Goal: a path with a NUL, which stands for a slash within, names nothing.
func TestStandIn(t *testing.T) {
	b := newBroker(t, Options{}, "")
	b.publish("orders", 1)
	b.consume("orders", "/", 1, func(*client.Delivery) error { return nil })
	for path, want := range map[string]int{
		"/v1/groups/%00": http.StatusNotFound, "/v1/groups/a%00": http.StatusNotFound, "/v1/groups/%2F": http.StatusOK, "/v1/groups/%2f": http.StatusOK,
	} {
		if status := b.call("GET", path, "", nil); status != want {
			t.Errorf("%s: %d", path, status)
		}
	}
	if status := b.call("DELETE", "/v1/groups/%00", "", nil); status != http.StatusNotFound {
		t.Error(status)
	}
	if status := b.call("DELETE", "/v1/groups/%2F", "", nil); status != http.StatusOK {
		t.Error(status)
	}
}

// Goal: reset, delete, redrive and purge do what they say, over HTTP.
func TestChanges(t *testing.T) {
	b := newBroker(t, Options{}, "")
	b.publish("orders", 1200)
	b.consume("orders", "g", 1200, func(*client.Delivery) error { return client.Reject(errBad) })
	var r Redriven
	if status := b.call("POST", "/v1/dlq/orders/redrive", "", &r); status != 200 || r != (Redriven{1200, 0}) {
		t.Fatalf("%d %+v", status, r)
	}
	if b.call("POST", "/v1/dlq/orders/redrive", "", &r); r != (Redriven{0, 1200}) {
		t.Fatalf("again: %+v", r)
	}
	var p Purged
	if b.call("POST", "/v1/dlq/orders/purge", "", &p); p.Purged != 0 {
		t.Fatalf("redriven ones were purged: %+v", p)
	}
	b.consume("orders", "g", 1, func(*client.Delivery) error { return client.Reject(errBad) })
	if b.call("POST", "/v1/dlq/orders/purge", "", &p); p.Purged < 1 {
		t.Fatalf("%+v", p)
	}
	var reset GroupReset
	for to, want := range map[string]string{"earliest": "1 1", "latest": "x x", "7": "7 7", time.Now().Add(-time.Hour).Format(time.RFC3339): "1 1"} {
		status := b.call("POST", "/v1/groups/g/reset?to="+url.QueryEscape(to), "", &reset)
		if status != 200 || reset.Group != "g" || len(reset.Items) != 2 {
			t.Fatalf("%s: %d %+v", to, status, reset)
		}
		if got := fmt.Sprint(reset.Items[0].Sequence, reset.Items[1].Sequence); got != want && want != "x x" {
			t.Fatalf("%s: %s", to, got)
		}
	}
	for to, code := range map[string]int{"": 400, "0": 400, "-1": 400, "yesterday": 400} {
		if status := b.call("POST", "/v1/groups/g/reset?to="+to, "", nil); status != code {
			t.Fatalf("%q: %d", to, status)
		}
	}
	if status := b.call("POST", "/v1/groups/none/reset?to=latest", "", nil); status != 404 {
		t.Fatal(status)
	}
	var done Result
	if status := b.call("DELETE", "/v1/groups/g", "", &done); status != 200 || done.Result != "deleted" {
		t.Fatalf("%d %+v", status, done)
	}
	var e Error
	if status := b.call("DELETE", "/v1/groups/g", "", &e); status != 404 || e.Name != "UNKNOWN_GROUP" {
		t.Fatalf("%d %+v", status, e)
	}
	if status := b.call("POST", "/v1/dlq/none/purge", "", &e); status != 404 || e.Name != "UNKNOWN_TOPIC" {
		t.Fatalf("%d %+v", status, e)
	}
}
