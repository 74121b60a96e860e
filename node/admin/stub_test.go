package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/mortarmq/mortarmq/node"
)

// stub answers every question with one answer.
type stub struct{ node.Answer }

func (s stub) Query(context.Context, node.Query) (node.Answer, error) { return s.Answer, nil }

// get asks the port for path under the name host, "" for its address.
func get(t *testing.T, server *httptest.Server, host, path string) (int, string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, server.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if host != "" {
		req.Host = host
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// Goal: health tells damage, by status and in words with place and diagnostic id;
// readiness stays: the rest is served. What stops everything is told by both.
func TestHealthLevels(t *testing.T) {
	hit := []node.DamageInfo{{Topic: "orders", Partition: 3, DiagnosticID: "x-1", Path: "topics/1/3/1.mqs", Offset: 64, Sequence: 7, What: "bad"}}
	for _, c := range []struct {
		info           node.BrokerInfo
		level          string
		healthy, ready int
	}{
		{node.BrokerInfo{Serving: true}, "healthy", 200, 200},
		{node.BrokerInfo{Serving: true, LowSpace: true}, "low_space", 200, 200},
		{node.BrokerInfo{Serving: true, Damaged: hit}, "damaged", 503, 200},
		{node.BrokerInfo{Serving: true, Damaged: hit, JournalStall: true}, "disk_full", 503, 503},
		{node.BrokerInfo{}, "recovering", 503, 503},
		{node.BrokerInfo{Serving: true, Stopping: true}, "stopping", 503, 503},
	} {
		server := httptest.NewServer(Handler(stub{node.Answer{Broker: c.info}}, Options{}))
		healthy, text := get(t, server, "", "/healthz")
		ready, _ := get(t, server, "", "/readyz")
		server.Close()
		var body Broker
		if err := json.Unmarshal([]byte(text), &body); err != nil {
			t.Fatal(err)
		}
		if healthy != c.healthy || ready != c.ready || body.Level != c.level {
			t.Errorf("%+v: %d %d %s", c.info, healthy, ready, text)
		}
		if c.level == "damaged" && (!strings.Contains(body.Reason, "partition 3 of orders") || len(body.Damaged) != 1 || body.Damaged[0].DiagnosticID != "x-1") {
			t.Errorf("%s", text)
		}
	}
}

// Goal: over loopback only an address, localhost and the name in listen_admin are
// let in; a name that a page's owner made lead here is not, with no path.
func TestHost(t *testing.T) {
	h := handler{q: stub{node.Answer{Broker: node.BrokerInfo{Serving: true}}}, process: processMetrics(), name: hostOf("Admin.internal:7190")}
	server := httptest.NewServer(h.mux())
	defer server.Close()
	for host, want := range map[string]int{
		"": 200, "127.0.0.1": 200, "127.0.0.1:7190": 200, "[::1]:7190": 200, "[::1]": 200, "10.1.2.3": 200, "localhost": 200,
		"LOCALHOST.:7190": 200, "admin.internal": 200, "admin.internal:1": 200,
		"evil.example": 403, "evil.example:7190": 403, "localhost.evil.example": 403, "127.0.0.1.evil.example": 403, "admin": 403,
	} {
		for _, path := range []string{"/healthz", "/v1/broker"} {
			if code, text := get(t, server, host, path); code != want {
				t.Errorf("Host %q %s: %d, want %d: %s", host, path, code, want, text)
			}
		}
	}
}

// Goal: however many topics, partitions and groups there are, a scrape has a
// bounded number of series, and its sums are those of all.
func TestSeriesBounded(t *testing.T) {
	s := &node.Stats{Broker: node.BrokerInfo{Serving: true}}
	for i := range topicSeriesMax + 100 {
		topic := node.TopicStats{ID: uint16(2*i + 1), Name: fmt.Sprintf("t%d", i), Produced: 3, Bytes: 5, Partitions: make([]node.PartitionStats, 16)}
		for p := range topic.Partitions {
			topic.Partitions[p] = node.PartitionStats{LastSeq: 2, Depth: 1}
		}
		s.Topics = append(s.Topics, topic)
	}
	for i := range groupSeriesMax + 100 {
		s.Groups = append(s.Groups, node.GroupStats{Name: fmt.Sprintf("g%d", i), Topic: "t1", Lag: 7, Delivered: 1, HasOldest: i%2 == 0, OldestMillis: uint64(i) * 1000})
	}
	server := httptest.NewServer(Handler(stub{node.Answer{Stats: s}}, Options{}))
	defer server.Close()
	code, text := get(t, server, "", "/metrics")
	if code != http.StatusOK {
		t.Fatal(code, text)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		series int
		sum    float64
	}{
		"mortarmq_topic_messages_produced_total":  {topicSeriesMax + 1, 3 * (topicSeriesMax + 100)},
		"mortarmq_topic_bytes_total":              {topicSeriesMax + 1, 5 * (topicSeriesMax + 100)},
		"mortarmq_partition_depth":                {partitionSeriesMax + topicSeriesMax + 1, 16 * (topicSeriesMax + 100)},
		"mortarmq_partition_last_seq":             {partitionSeriesMax + topicSeriesMax + 1, 32 * (topicSeriesMax + 100)},
		"mortarmq_group_lag":                      {groupSeriesMax + 1, 7 * (groupSeriesMax + 100)},
		"mortarmq_topic_messages_delivered_total": {groupSeriesMax + 1, groupSeriesMax + 100},
		"mortarmq_group_oldest_unsettled_seconds": {groupSeriesMax + 1, -1},
		"mortarmq_partitions_damaged":             {1, 0},
	} {
		f := families[name]
		sum := 0.0
		for _, m := range f.GetMetric() {
			sum += m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
		if len(f.GetMetric()) > c.series || c.sum >= 0 && sum != c.sum {
			t.Errorf("%s: %d series, at most %d; sum %v, want %v", name, len(f.GetMetric()), c.series, sum, c.sum)
		}
	}
}
