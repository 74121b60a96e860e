package config

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	stdnet "net"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// Config is a complete, valid configuration. Sizes are bytes, times
// milliseconds, as in the key's name.
type Config struct {
	NodeID                  uint16
	ListenClient            string
	ListenAdmin             string
	TokenDigests            [][32]byte
	DataDir                 string
	SegmentMaxBytes         int64
	PartitionDefaultCount   uint16
	DeliveryMaxAttempts     uint16
	DeliveryLeaseMs         int64
	RetryBackoffBaseMs      uint32
	RetryBackoffMaxMs       uint32
	PollMaxWaitMs           int64
	CreditInitialCount      uint16
	CreditInitialBytes      uint32
	MetadataSnapshotRecords int
	StorageReserve          Reserve
	MaxTopics               uint16
	PublishRateLimit        uint32
	MaxConnections          int
	MetricsEnabled          bool
	LogLevel                string
	LogFormat               string

	// CheckOnly says that --check-config was given.
	CheckOnly bool
	// VersionOnly says that --version was given; nothing else is looked at then.
	VersionOnly bool

	values map[string]value
}

type value struct {
	text   string
	number int64
	source string // default, file, flag
}

// ErrHelp is what Load answers to --help.
var ErrHelp = pflag.ErrHelp

// Load reads the command line and the file it names.
func Load(args []string, usage io.Writer) (*Config, error) {
	c := &Config{values: map[string]value{}}
	for _, k := range keys {
		c.values[k.name] = value{text: k.fallback, source: "default"}
	}
	flags := pflag.NewFlagSet("mortarmqd", pflag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.SortFlags = false
	file := flags.String("config", "", "JSON file of these keys, with underscores; flags win")
	check := flags.Bool("check-config", false, "check the configuration, print what is in force, and exit")
	version := flags.Bool("version", false, "print the version and exit")
	texts := map[string]*string{}
	for _, k := range keys {
		texts[k.name] = flags.String(flagName(k.name), k.fallback, k.usage)
	}
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			fmt.Fprintf(usage, "mortarmqd: the MortarMQ broker\n\n%s\nExit codes: 0 after a drain, 1 when it could not start or could not go on.\n", flags.FlagUsages())
			return nil, ErrHelp
		}
		return nil, flagError(err)
	}
	if *version {
		c.VersionOnly = true
		return c, nil
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q; every setting is a flag, see --help", flags.Arg(0))
	}
	if *file != "" {
		if err := c.readFile(*file); err != nil {
			return nil, err
		}
	}
	for _, k := range keys {
		if flags.Changed(flagName(k.name)) {
			c.values[k.name] = value{text: *texts[k.name], source: "flag"}
		}
	}
	c.CheckOnly = *check
	return c, c.resolve()
}

func flagName(key string) string { return strings.ReplaceAll(key, "_", "-") }

// flagError adds to the flag library's message what was probably meant.
func flagError(err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		name := strings.ReplaceAll(unknown.GetSpecifiedName(), "-", "_")
		if why, ok := notYet[name]; ok {
			return fmt.Errorf("--%s: %s", unknown.GetSpecifiedName(), why)
		}
		if near := nearest(name); near != "" {
			return fmt.Errorf("unknown flag --%s: did you mean --%s?", unknown.GetSpecifiedName(), flagName(near))
		}
		return fmt.Errorf("unknown flag --%s; see --help", unknown.GetSpecifiedName())
	}
	return err
}

// readFile takes the keys of a JSON file. _comment is allowed anywhere.
func (c *Config) readFile(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("config: %w", err)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	bad := func(err error) error { return fmt.Errorf("config: %s line %d: %w", path, badLine(data), err) }
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return fmt.Errorf("config: %s is not a JSON object", path)
	}
	seen := map[string]bool{}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return bad(err)
		}
		name, _ := t.(string)
		var v any
		if err := dec.Decode(&v); err != nil {
			return bad(fmt.Errorf("%s: %w", name, err))
		}
		if name == "_comment" {
			continue
		}
		if seen[name] {
			return fmt.Errorf("%s: stands twice in %s", name, path)
		}
		seen[name] = true
		if err := c.setFromFile(name, v); err != nil {
			return err
		}
	}
	if _, err := dec.Token(); err != nil {
		return bad(err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return bad(errors.New("something follows the object"))
	}
	return nil
}

// badLine gives the line, from 1, on which data ceases to be JSON.
func badLine(data []byte) int {
	var syntax *json.SyntaxError
	at := len(data)
	if err := json.Unmarshal(data, new(json.RawMessage)); errors.As(err, &syntax) {
		at = int(syntax.Offset) - 1
	}
	before := data[:at]
	if len(bytes.TrimSpace(data[at:])) == 0 { // the end came too early
		before = bytes.TrimRight(before, "\n")
	}
	return 1 + bytes.Count(before, []byte{'\n'})
}

func (c *Config) setFromFile(name string, v any) error {
	k, ok := keyByName(name)
	if !ok {
		if why, ok := notYet[name]; ok {
			return fmt.Errorf("%s: %s", name, why)
		}
		if near := nearest(name); near != "" {
			return fmt.Errorf("%s: did you mean %s?", name, near)
		}
		return fmt.Errorf("%s: no such key", name)
	}
	if b, ok := v.(bool); ok != (k.kind == kindBool) {
		if !ok {
			return fmt.Errorf("%s: wants true or false", name)
		}
		return fmt.Errorf("%s: wants a string or a number, not %v", name, b)
	}
	switch v := v.(type) {
	case bool:
		c.values[name] = value{text: strconv.FormatBool(v), source: "file"}
	case json.Number:
		if k.kind == kindText {
			return fmt.Errorf("%s: wants a string, not a number", name)
		}
		c.values[name] = value{text: v.String(), source: "file"}
	case string:
		if k.kind == kindInt && (!k.off || v != "off") {
			return fmt.Errorf("%s: wants a whole number, not a string", name)
		}
		c.values[name] = value{text: v, source: "file"}
	default:
		return fmt.Errorf("%s: wants a string or a number", name)
	}
	return nil
}

// resolve checks every value and fills the fields.
func (c *Config) resolve() error {
	for _, k := range keys {
		v := c.values[k.name]
		n, err := k.check(v.text)
		if err != nil {
			return err
		}
		v.number = n
		c.values[k.name] = v
	}
	num := func(name string) int64 { return c.values[name].number }
	text := func(name string) string { return c.values[name].text }
	c.NodeID = uint16(num("node_id"))
	c.ListenClient, c.ListenAdmin = text("listen_client"), text("listen_admin")
	c.DataDir = text("data_dir")
	c.SegmentMaxBytes = num("segment_max_bytes")
	c.PartitionDefaultCount = uint16(num("partition_default_count"))
	c.DeliveryMaxAttempts = uint16(num("delivery_max_attempts"))
	c.DeliveryLeaseMs = num("delivery_lease_ms")
	c.RetryBackoffBaseMs = uint32(num("retry_backoff_base_ms"))
	c.RetryBackoffMaxMs = uint32(num("retry_backoff_max_ms"))
	c.PollMaxWaitMs = num("poll_max_wait_ms")
	c.CreditInitialCount = uint16(num("credit_initial_count"))
	c.CreditInitialBytes = uint32(num("credit_initial_bytes"))
	c.MetadataSnapshotRecords = int(num("metadata_snapshot_records"))
	c.MaxTopics = uint16(num("max_topics"))
	c.PublishRateLimit = uint32(num("publish_rate_limit"))
	c.MaxConnections = int(num("max_connections"))
	c.MetricsEnabled = text("metrics_enabled") == "true"
	c.LogLevel, c.LogFormat = text("log_level"), text("log_format")
	var err error
	if c.StorageReserve, err = ParseReserve(text("storage_reserve")); err != nil {
		return err
	}
	if path := text("token_digest_file"); path != "" {
		if c.TokenDigests, err = readDigests(path); err != nil {
			return err
		}
	}
	return c.crossCheck()
}

func (c *Config) crossCheck() error {
	if c.RetryBackoffMaxMs < c.RetryBackoffBaseMs {
		return fmt.Errorf("retry_backoff_max_ms: %d is below retry_backoff_base_ms %d", c.RetryBackoffMaxMs, c.RetryBackoffBaseMs)
	}
	if c.DataDir == "" {
		return errors.New("data_dir: is empty")
	}
	for _, a := range []struct{ key, addr string }{{"listen_client", c.ListenClient}, {"listen_admin", c.ListenAdmin}} {
		host, port, err := stdnet.SplitHostPort(a.addr)
		if err != nil {
			return fmt.Errorf("%s: %q is not HOST:PORT", a.key, a.addr)
		}
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			return fmt.Errorf("%s: %q: the port is a number from 0 to 65535", a.key, a.addr)
		}
		if a.key == "listen_client" && len(c.TokenDigests) == 0 && !loopback(host) {
			return fmt.Errorf("listen_client: %s is reachable from other machines; set token_digest_file first, or listen on 127.0.0.1", a.addr)
		}
	}
	return nil
}

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := stdnet.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// readDigests reads a digest file: lower-case hex, one digest a line, blank
// lines and # comments allowed.
func readDigests(path string) ([][32]byte, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("token_digest_file: %w", err)
	}
	var digests [][32]byte
	for i, line := range strings.Split(string(data), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		var d [32]byte
		if n, err := hex.Decode(d[:], []byte(line[:min(len(line), 64)])); err != nil || n != 32 || len(line) != 64 || strings.ToLower(line) != line {
			return nil, fmt.Errorf("token_digest_file: %s line %d is not a SHA-256 digest in lower-case hex; mortarmq hash-token makes one", path, i+1)
		}
		digests = append(digests, d)
	}
	if len(digests) == 0 {
		return nil, fmt.Errorf("token_digest_file: %s holds no digest", path)
	}
	return digests, nil
}

// Print writes what is in force as TSV: key, value, source.
func (c *Config) Print(w io.Writer) error {
	var b strings.Builder
	for _, k := range keys {
		v := c.values[k.name]
		fmt.Fprintf(&b, "%s\t%s\t%s\n", k.name, v.text, v.source)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
