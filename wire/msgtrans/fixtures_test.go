package msgtrans

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// pinned is what fixtures 01 to 08 are, byte for byte, so that no generator can
// quietly change the format.
var pinned = map[string]string{
	"01_oneway_empty":       "01000000000000010000000000000000",
	"02_oneway_text":        "010000050000002a00000000000b0000" + "68656c6c6f20776f726c64",
	"03_request_minimal":    "0100010a000000640000000000040000" + "70696e67",
	"04_response_matching":  "0100020a000000640000000000040000" + "706f6e67",
	"05_with_ext_header":    "01000000000000070009000000040000" + "726f7574653a616263" + "64617461",
	"06_max_biz_type":       "010000ffdeadbeef0000000000000000",
	"07_high_priority_flag": "01000000000000010000000000000002",
	"08_route_tag_flag":     "01000000000000010000000000000004",
}

type fixtureInput struct {
	Version     int         `json:"version"`
	Compression Compression `json:"compression"`
	Type        Type        `json:"packet_type"`
	Biz         uint8       `json:"biz_type"`
	ID          MessageID   `json:"message_id"`
	Ext         string      `json:"ext_header_hex"`
	Payload     string      `json:"payload_hex"`
	Flags       Flags       `json:"reserved"`
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Goal: every fixture encodes to its bytes and decodes to its input; the
// compressed ones are compared by what they decompress to.
func TestFixturesBothWays(t *testing.T) {
	inputs, err := filepath.Glob("testdata/*.json")
	if err != nil || len(inputs) != 10 {
		t.Fatalf("%d fixtures, %v; want 10", len(inputs), err)
	}
	for _, path := range inputs {
		name := strings.TrimSuffix(filepath.Base(path), ".json")
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var in fixtureInput
			if err := json.Unmarshal(text, &in); err != nil {
				t.Fatal(err)
			}
			stored, err := os.ReadFile(strings.TrimSuffix(path, ".json") + ".bin")
			if err != nil {
				t.Fatal(err)
			}
			if want, ok := pinned[name]; ok && hex.EncodeToString(stored) != want {
				t.Fatalf("stored %x\npinned %s", stored, want)
			} else if !ok && in.Compression == None {
				t.Fatal("an uncompressed fixture is not pinned")
			}
			checkFixture(t, in, stored)
		})
	}
}

func checkFixture(t *testing.T, in fixtureInput, stored []byte) {
	t.Helper()
	if in.Version != Version {
		t.Fatalf("version %d", in.Version)
	}
	codec := NewCodec(0)
	payload := unhex(t, in.Payload)
	got, err := Decode(stored, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	plain, err := codec.Decompress(nil, got.Payload, got.Compression)
	if err != nil {
		t.Fatal(err)
	}
	want := Packet{Compression: in.Compression, Type: in.Type, Biz: in.Biz, ID: in.ID, Flags: in.Flags, Ext: unhex(t, in.Ext), Payload: payload}
	got.Payload = plain
	requireSame(t, got, want)

	sent := want
	if sent.Payload, err = codec.Compress(nil, payload, in.Compression); err != nil {
		t.Fatal(err)
	}
	encoded, err := Append(nil, &sent, Bare)
	if err != nil {
		t.Fatal(err)
	}
	if in.Compression == None {
		if !bytes.Equal(encoded, stored) {
			t.Fatalf("encoded %x\nstored  %x", encoded, stored)
		}
		return
	}
	back, err := Decode(encoded, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if back.Payload, err = codec.Decompress(nil, back.Payload, back.Compression); err != nil {
		t.Fatal(err)
	}
	requireSame(t, back, want)
}

func requireSame(t *testing.T, got, want Packet) {
	t.Helper()
	if got.Compression != want.Compression || got.Type != want.Type || got.Biz != want.Biz || got.ID != want.ID ||
		got.Flags != want.Flags || !bytes.Equal(got.Ext, want.Ext) || !bytes.Equal(got.Payload, want.Payload) {
		t.Fatalf("got  %+v\nwant %+v", got, want)
	}
}
