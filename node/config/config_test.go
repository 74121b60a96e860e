package config

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func write(t *testing.T, name, content string) string {
	t.Helper()
	p := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(p, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return p
}

// Goal: without file and flags everything has its documented default.
func TestDefaults(t *testing.T) {
	c, err := Load(nil, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if c.ListenClient != "127.0.0.1:7188" || c.SegmentMaxBytes != 64<<20 || c.CreditInitialBytes != 2<<20 || c.StorageReserve != (Reserve{10, 10 << 30}) || c.PublishRateLimit != 0 || !c.MetricsEnabled {
		t.Fatalf("%+v", c)
	}
}

// Goal: flags win over the file, the file over defaults, and Print says so.
func TestSources(t *testing.T) {
	f := write(t, "c.json", `{"_comment": ["any", {"thing": 1}], "node_id": 7, "segment_max_bytes": "1MiB", "publish_rate_limit": "off", "storage_reserve": "5%", "metrics_enabled": false}`)
	c, err := Load([]string{"--config", f, "--node-id", "9", "--check-config"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := c.Print(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"node_id\t9\tflag\n", "segment_max_bytes\t1MiB\tfile\n", "storage_reserve\t5%\tfile\n", "metrics_enabled\tfalse\tfile\n", "data_dir\t./data\tdefault\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("missing %q in\n%s", want, b.String())
		}
	}
	if !c.CheckOnly || c.SegmentMaxBytes != 1<<20 || c.StorageReserve != (Reserve{5, -1}) || c.MetricsEnabled {
		t.Fatalf("%+v", c)
	}
}

// Goal: each kind of mistake stops the start with a line that names the key and
// says what to write.
func TestRefusals(t *testing.T) {
	digests := write(t, "tokens", strings.Repeat("a", 63)+"\n")
	upper := write(t, "upper", strings.Repeat("A", 64)+"\n")
	none := write(t, "none", "# nobody\n\n")
	for _, tc := range []struct{ file, flags, want string }{
		{`{"listen_tcp": "x"}`, "", "listen_tcp: did you mean listen_client?"},
		{`{"data_dri": "x"}`, "", "data_dri: did you mean data_dir?"},
		{`{"zzzzzz": 1}`, "", "zzzzzz: no such key"},
		{`{"node_id": "1"}`, "", "node_id: wants a whole number, not a string"},
		{`{"node_id": 1.5}`, "", `node_id: "1.5" is not a whole number`},
		{`{"node_id": 65535}`, "", "node_id: 65535 is out of range, 1 to 65534"},
		{`{"data_dir": 3}`, "", "data_dir: wants a string, not a number"},
		{`{"node_id": null}`, "", "node_id: wants a string or a number"},
		{`{"node_id": true}`, "", "node_id: wants a string or a number, not true"},
		{`{"metrics_enabled": "no"}`, "", "metrics_enabled: wants true or false"},
		{`{"metrics_enabled": 1}`, "", "metrics_enabled: wants true or false"},
		{"", "--metrics-enabled maybe", `metrics_enabled: "maybe" is none of true, false`},
		{`{"node_id": 1, "node_id": 2}`, "", "node_id: stands twice"},
		{`{"peers": []}`, "", "peers: this version runs on one node"},
		{`[]`, "", "is not a JSON object"},
		{`{"node_id": 1} 5`, "", "something follows the object"},
		{`{"node_id": 1`, "", "line 1: EOF"},
		{"{\n\"node_id\": 1,\n\n", "", "line 2: EOF"},
		{"{\n\"node_id\": 1\n\"data_dir\": \"x\"}\n", "", "line 3: invalid character"},
		{"{\n\"node_id\": 1,\n}\n", "", "line 3: invalid character"},
		{"{\n\"node_id\": tru,\n\"data_dir\": 1}\n", "", "line 2: node_id: invalid character"},
		{"{\n\"node_id\": 1\n}\n5", "", "line 4: something follows"},
		{"", "--data-dri x", "unknown flag --data-dri: did you mean --data-dir?"},
		{"", "--tls-key-file x", "--tls-key-file: this version has no TLS"},
		{"", "serve", `unexpected argument "serve"`},
		{"", "--segment-max-bytes 3", "segment_max_bytes: 3 is out of range"},
		{"", "--segment-max-bytes 9MB", `segment_max_bytes: "9MB" is not a number of bytes`},
		{"", "--delivery-lease-ms 499", "delivery_lease_ms: 499 is out of range"},
		{"", "--retry-backoff-base-ms 2000 --retry-backoff-max-ms 1000", "retry_backoff_max_ms: 1000 is below"},
		{"", "--storage-reserve 99%", "storage_reserve:"},
		{"", "--storage-reserve 1GiB,2GiB", "storage_reserve:"},
		{"", "--log-level loud", `log_level: "loud" is none of debug, info, warn, error`},
		{"", "--listen-client 0.0.0.0:7188", "set token_digest_file first"},
		{"", "--listen-client 7188", `listen_client: "7188" is not HOST:PORT`},
		{"", "--listen-admin 127.0.0.1:99999", "listen_admin:"},
		{"", "--token-digest-file " + digests, "line 1 is not a SHA-256 digest"},
		{"", "--token-digest-file " + upper, "line 1 is not a SHA-256 digest"},
		{"", "--token-digest-file " + none, "holds no digest"},
		{"", "--token-digest-file /nowhere/x", "token_digest_file: open /nowhere/x"},
		{"", "--config /nowhere/x", "config: open /nowhere/x"},
	} {
		args := strings.Fields(tc.flags)
		if tc.file != "" {
			args = append(args, "--config", write(t, "c.json", tc.file))
		}
		_, err := Load(args, io.Discard)
		if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s %s:\n got %v\nwant %s", tc.file, tc.flags, err, tc.want)
		}
	}
}

// Goal: a digest file with comments opens any address.
func TestDigests(t *testing.T) {
	f := write(t, "tokens", "# app one\n\n"+strings.Repeat("0a", 32)+"\n")
	c, err := Load([]string{"--token-digest-file", f, "--listen-client", "0.0.0.0:7188"}, io.Discard)
	if err != nil || len(c.TokenDigests) != 1 || c.TokenDigests[0][0] != 10 {
		t.Fatalf("%v %v", c, err)
	}
}

// Goal: --help prints every key as a flag.
func TestHelp(t *testing.T) {
	var b strings.Builder
	if _, err := Load([]string{"--help"}, &b); !errors.Is(err, ErrHelp) {
		t.Fatal(err)
	}
	for _, k := range keys {
		if !strings.Contains(b.String(), "--"+flagName(k.name)+" ") {
			t.Errorf("no --%s", flagName(k.name))
		}
	}
}

// Goal: the reserve is the smaller of its parts.
func TestReserve(t *testing.T) {
	r, err := ParseReserve("10%,10GiB")
	if err != nil || r.Of(50<<30) != 5<<30 || r.Of(1000<<30) != 10<<30 {
		t.Fatalf("%v %v %d", r, err, r.Of(50<<30))
	}
}
