package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// kind is the type of a key's value.
type kind uint8

const (
	kindInt   kind = iota // a whole number
	kindBytes             // a whole number of bytes, or a string such as "64MiB"
	kindText              // a string
	kindBool              // true or false
)

// key is one row of the configuration table.
type key struct {
	name     string
	kind     kind
	fallback string
	min, max int64 // kindInt, kindBytes
	off      bool  // 0 and "off" switch it off
	usage    string
	choices  []string // kindText, kindBool: the only values
}

// keys is the table, in the order of the docs.
var keys = []key{
	{name: "node_id", kind: kindInt, fallback: "1", min: 1, max: 65534, usage: "number of this node"},
	{name: "listen_client", kind: kindText, fallback: "127.0.0.1:7188", usage: "address of the client protocol; beyond loopback only with token_digest_file"},
	{name: "listen_admin", kind: kindText, fallback: "127.0.0.1:7190", usage: "address of the admin port"},
	{name: "token_digest_file", kind: kindText, usage: "file of SHA-256 digests of client tokens, one a line (mortarmq hash-token makes them)"},
	{name: "data_dir", kind: kindText, fallback: "./data", usage: "directory of everything durable"},
	{name: "segment_max_bytes", kind: kindBytes, fallback: "64MiB", min: 1 << 20, max: 1 << 30, usage: "size at which a partition's segment is sealed"},
	{name: "partition_default_count", kind: kindInt, fallback: "4", min: 1, max: 1024, usage: "partitions of a topic declared without a count"},
	{name: "delivery_max_attempts", kind: kindInt, fallback: "5", min: 1, max: 1000, usage: "failed deliveries after which a message becomes a dead letter"},
	{name: "delivery_lease_ms", kind: kindInt, fallback: "30000", min: 500, max: 86400000, usage: "how long a delivery may stay unanswered"},
	{name: "retry_backoff_base_ms", kind: kindInt, fallback: "1000", min: 100, max: 86400000, usage: "wait before the second delivery; doubles with each further one"},
	{name: "retry_backoff_max_ms", kind: kindInt, fallback: "30000", min: 100, max: 86400000, usage: "longest wait before a redelivery"},
	{name: "poll_max_wait_ms", kind: kindInt, fallback: "5000", min: 0, max: 60000, usage: "longest wait of a PULL"},
	{name: "credit_initial_count", kind: kindInt, fallback: "256", min: 1, max: 65535, usage: "messages a subscription may hold unless it asks for another number"},
	{name: "credit_initial_bytes", kind: kindBytes, fallback: "2MiB", min: 1, max: math.MaxUint32, usage: "bytes a subscription may hold unless it asks for another number"},
	{name: "metadata_snapshot_records", kind: kindInt, fallback: "8192", min: 1, max: 1 << 24, usage: "metadata changes between two snapshots"},
	{name: "storage_reserve", kind: kindText, fallback: "10%,10GiB", usage: "free space below which publishes are refused: a percentage, a size, or both (the smaller)"},
	{name: "max_topics", kind: kindInt, fallback: "32767", min: 1, max: 32767, usage: "topics that may be declared"},
	{name: "publish_rate_limit", kind: kindInt, fallback: "0", min: 0, max: math.MaxUint32, off: true, usage: "messages a second and connection; 0 is off"},
	{name: "max_connections", kind: kindInt, fallback: "10000", min: 1, max: 1000000, usage: "client connections; one more is closed with BACKPRESSURE"},
	{name: "metrics_enabled", kind: kindBool, fallback: "true", choices: []string{"true", "false"}, usage: "serve /metrics on the admin port"},
	{name: "log_level", kind: kindText, fallback: "info", choices: []string{"debug", "info", "warn", "error"}, usage: "least level that is logged"},
	{name: "log_format", kind: kindText, fallback: "text", choices: []string{"text", "json"}, usage: "form of the log's lines"},
}

// notYet are keys of later versions: named so that their refusal says why.
var notYet = map[string]string{
	"peers":               "this version runs on one node",
	"leader_priority":     "this version runs on one node",
	"cluster_secret_file": "this version runs on one node",
	"listen_peer":         "this version runs on one node",
	"listen_ws":           "this version has no WebSocket gateway",
	"ws_origins":          "this version has no WebSocket gateway",
	"listen_quic":         "this version has no QUIC gateway",
	"tls_cert_file":       "this version has no TLS; put a TLS proxy in front",
	"tls_key_file":        "this version has no TLS; put a TLS proxy in front",
	"tls_client_ca_file":  "this version has no TLS; put a TLS proxy in front",
	"retention_bytes":     "this version keeps what was published until its topic is deleted",
	"retention_ms":        "this version keeps what was published until its topic is deleted",
}

func keyByName(name string) (key, bool) {
	for _, k := range keys {
		if k.name == name {
			return k, true
		}
	}
	return key{}, false
}

// check says what is wrong with value, and gives the number it stands for where
// the key is one.
func (k key) check(value string) (int64, error) {
	switch k.kind {
	case kindText, kindBool:
		if len(k.choices) == 0 {
			return 0, nil
		}
		for _, c := range k.choices {
			if c == value {
				return 0, nil
			}
		}
		return 0, fmt.Errorf("%s: %q is none of %s", k.name, value, strings.Join(k.choices, ", "))
	case kindInt, kindBytes:
	}
	if k.off && value == "off" {
		return 0, nil
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil && k.kind == kindBytes {
		n, err = ParseSize(value)
	}
	if err != nil {
		what := "a whole number"
		if k.kind == kindBytes {
			what = `a number of bytes, or a size such as "64MiB"`
		}
		return 0, fmt.Errorf("%s: %q is not %s", k.name, value, what)
	}
	if n < k.min || n > k.max {
		return 0, fmt.Errorf("%s: %s is out of range, %d to %d", k.name, value, k.min, k.max)
	}
	return n, nil
}

// ParseSize reads a size such as "10GiB", "512KiB" or "4096".
func ParseSize(s string) (int64, error) {
	units := []struct {
		suffix string
		shift  uint
	}{{"KiB", 10}, {"MiB", 20}, {"GiB", 30}, {"TiB", 40}, {"B", 0}, {"", 0}}
	for _, u := range units {
		digits, ok := strings.CutSuffix(s, u.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
		if err != nil || n < 0 || n > math.MaxInt64>>u.shift {
			break
		}
		return n << u.shift, nil
	}
	return 0, fmt.Errorf("%q is not a size; write bytes, KiB, MiB, GiB or TiB", s)
}

// Reserve is the free space below which publishes are refused: the smaller of
// the parts that are set.
type Reserve struct {
	Percent int   // of the file system's size, -1: not set
	Bytes   int64 // -1: not set
}

// ParseReserve reads "10%", "10GiB" or "10%,10GiB".
func ParseReserve(s string) (Reserve, error) {
	r := Reserve{Percent: -1, Bytes: -1}
	for _, part := range strings.Split(s, ",") {
		part = strings.TrimSpace(part)
		if p, ok := strings.CutSuffix(part, "%"); ok {
			n, err := strconv.Atoi(p)
			if err != nil || n < 0 || n > 90 || r.Percent >= 0 {
				return r, fmt.Errorf("storage_reserve: %q: write one percentage from 0%% to 90%%", s)
			}
			r.Percent = n
			continue
		}
		n, err := ParseSize(part)
		if err != nil || r.Bytes >= 0 {
			return r, fmt.Errorf(`storage_reserve: %q: write a percentage, a size, or both: "10%%,10GiB"`, s)
		}
		r.Bytes = n
	}
	return r, nil
}

// Of gives the reserve in bytes on a file system of total bytes.
func (r Reserve) Of(total int64) int64 {
	best := int64(math.MaxInt64)
	if r.Percent >= 0 {
		best = total / 100 * int64(r.Percent)
	}
	if r.Bytes >= 0 {
		best = min(best, r.Bytes)
	}
	return best
}

// nearest gives the key or flag that name was most likely meant to be, or "".
func nearest(name string) string {
	best, bestDistance := "", len(name)/2+1
	for _, k := range keys {
		d := Distance(name, k.name)
		if strings.HasPrefix(name, "listen_") && strings.HasPrefix(k.name, "listen_client") {
			d = min(d, bestDistance-1) // listen_tcp and the like mean the client port
		}
		if d < bestDistance {
			best, bestDistance = k.name, d
		}
	}
	return best
}

// Distance is the number of single-letter edits between a and b.
func Distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = min(diagonal, row[j], row[j+1]) + 1
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
