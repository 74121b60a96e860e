package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	wire "github.com/mortarmq/mortarmq/wire/msgtrans"
)

// fixture is one packet of section 15 before compression.
type fixture struct {
	name   string
	packet wire.Packet
}

// fixtureInput is the JSON beside each .bin; the payload is the uncompressed one.
type fixtureInput struct {
	Version     int    `json:"version"`
	Compression int    `json:"compression"`
	PacketType  int    `json:"packet_type"`
	BizType     int    `json:"biz_type"`
	MessageID   uint32 `json:"message_id"`
	ExtHex      string `json:"ext_header_hex"`
	PayloadHex  string `json:"payload_hex"`
	Reserved    int    `json:"reserved"`
}

// fixtureList holds the packets of section 15. The text leaves the ids of 07 to
// 10 and the repeated character open; these are ours.
func fixtureList() []fixture {
	repeated := bytes.Repeat([]byte("a"), 1024)
	return []fixture{
		{name: "01_oneway_empty", packet: wire.Packet{ID: 1}},
		{name: "02_oneway_text", packet: wire.Packet{ID: 42, Biz: 5, Payload: []byte("hello world")}},
		{name: "03_request_minimal", packet: wire.Packet{Type: wire.Request, ID: 100, Biz: 10, Payload: []byte("ping")}},
		{name: "04_response_matching", packet: wire.Packet{Type: wire.Response, ID: 100, Biz: 10, Payload: []byte("pong")}},
		{name: "05_with_ext_header", packet: wire.Packet{ID: 7, Ext: []byte("route:abc"), Payload: []byte("data")}},
		{name: "06_max_biz_type", packet: wire.Packet{ID: 0xDEADBEEF, Biz: 255}},
		{name: "07_high_priority_flag", packet: wire.Packet{ID: 1, Flags: wire.HighPriority}},
		{name: "08_route_tag_flag", packet: wire.Packet{ID: 1, Flags: wire.HasRouteTag}},
		{name: "09_compressed_zlib", packet: wire.Packet{ID: 1, Compression: wire.Zlib, Payload: repeated}},
		{name: "10_compressed_zstd", packet: wire.Packet{ID: 1, Compression: wire.Zstd, Payload: repeated}},
	}
}

// fixtures writes the .bin and .json of every fixture.
func fixtures(_ context.Context, args []string, out io.Writer) error {
	fs := flags("fixtures")
	dir := fs.String("dir", ".", "folder to write to")
	if err := fs.parse(args, 0, "the folder follows --dir"); err != nil {
		return err
	}
	codec := wire.NewCodec(0)
	for _, f := range fixtureList() {
		input, err := json.MarshalIndent(fixtureInput{
			Version:     wire.Version,
			Compression: int(f.packet.Compression),
			PacketType:  int(f.packet.Type),
			BizType:     int(f.packet.Biz),
			MessageID:   uint32(f.packet.ID),
			ExtHex:      hex.EncodeToString(f.packet.Ext),
			PayloadHex:  hex.EncodeToString(f.packet.Payload),
			Reserved:    int(f.packet.Flags),
		}, "", "  ")
		if err != nil {
			return fmt.Errorf("fixture %s: %w", f.name, err)
		}
		p := f.packet
		if p.Payload, err = codec.Compress(nil, p.Payload, p.Compression); err != nil {
			return fmt.Errorf("fixture %s: %w", f.name, err)
		}
		b, err := wire.Append(nil, &p, wire.Bare)
		if err != nil {
			return fmt.Errorf("fixture %s: %w", f.name, err)
		}
		for suffix, content := range map[string][]byte{".json": append(input, '\n'), ".bin": b} {
			if err := os.WriteFile(filepath.Join(*dir, f.name+suffix), content, 0o644); err != nil {
				return fmt.Errorf("fixture %s: %w", f.name, err)
			}
		}
		fmt.Fprintf(out, "%-24s %5d bytes\n", f.name, len(b))
	}
	return nil
}
