// Goal: every rule of the wire format stands in testdata as bytes with what they mean, and the codec agrees both ways.
package wire

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// goldenCase is one case of a file: bytes, arguments, and the lines that are expected.
type goldenCase struct {
	name, args string
	data       []byte
	want       []string
}

// readGolden reads a file of testdata. Its lines begin with case, args, hex or want; the rest are comments.
func readGolden(t testing.TB, file string) []goldenCase {
	t.Helper()
	text, err := os.ReadFile("testdata/" + file + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	var cases []goldenCase
	for i, line := range strings.Split(string(text), "\n") {
		key, rest, _ := strings.Cut(line, " ")
		if key == "case" {
			cases = append(cases, goldenCase{name: rest})
			continue
		}
		if key == "" || key == "#" {
			continue
		}
		c := &cases[len(cases)-1]
		switch key {
		case "args":
			c.args = rest
		case "hex":
			b, err := parseBytes(rest)
			if err != nil {
				t.Fatalf("%s.txt:%d: %v", file, i+1, err)
			}
			c.data = append(c.data, b...)
		case "want":
			c.want = append(c.want, rest)
		default:
			t.Fatalf("%s.txt:%d: %q is not understood", file, i+1, line)
		}
	}
	return cases
}

func TestGoldenFrames(t *testing.T) {
	// Goal: each case decodes to what its file says, and what was accepted encodes to the same bytes.
	for _, c := range codecs {
		t.Run(c.file, func(t *testing.T) {
			for _, g := range readGolden(t, c.file) {
				t.Run(g.name, func(t *testing.T) { runGolden(t, c, g) })
			}
		})
	}
}

func runGolden(t *testing.T, c codec, g goldenCase) {
	if len(g.want) != 1 {
		t.Fatal("a case needs one want")
	}
	if n := int(be.Uint32(g.data)); n != len(g.data)-frameLenSize {
		t.Fatalf("the case itself is wrong: length %d over %d bytes", n, len(g.data)-frameLenSize)
	}
	payload := g.data[frameHeaderSize:]
	if got := Op(g.data[frameLenSize]); got != c.op {
		t.Fatalf("op %v, want %v", got, c.op)
	}
	if len(payload) >= MaxFrameLen {
		t.Log("longer than any frame that a reader lets through; the decoder refuses it all the same")
	}
	if c.answer != 0 {
		var ok OK
		if err := ok.Decode(payload); err != nil {
			t.Fatal(err)
		}
		if ok.RequestOp != c.answer {
			t.Fatalf("answers %v, want %v", ok.RequestOp, c.answer)
		}
		payload = ok.Result
	}
	m, err := c.decode(payload, g.args == "true")
	got := describe(m, err)
	kind, rest, _ := strings.Cut(g.want[0], " ")
	if tail := kind == "ok+tail"; tail || kind == "ok" {
		if want := strings.TrimSpace("ok " + rest); got != want {
			t.Fatalf("\n got %s\nwant %s", got, want)
		}
		if same := bytes.Equal(c.encode(m), g.data); same == tail {
			t.Fatalf("encoding gives the same bytes: %v, want %v", same, !tail)
		}
		if tail && !c.unknown(m) {
			t.Fatal("a tail was accepted without an unknown flag")
		}
		return
	}
	if got != g.want[0] {
		t.Fatalf("\n got %s\nwant %s", got, g.want[0])
	}
}

// describe is a decoder's outcome in the words of a want line.
func describe(m any, err error) string {
	if err != nil {
		d := err.(*DecodeError)
		return d.Code.String() + " " + d.Message
	}
	return strings.TrimSpace("ok " + dump(m))
}

func TestGoldenTruncated(t *testing.T) {
	// Goal: no decoder accepts or panics on a payload that was cut anywhere, or reads beyond the cut.
	for _, c := range codecs {
		for _, g := range readGolden(t, c.file) {
			if !strings.HasPrefix(g.want[0], "ok ") || len(g.data) > 1000 {
				continue
			}
			p := c.body(g.data)
			for n := range p {
				m, err := c.decode(bytes.Clone(p[:n]), g.args == "true")
				if err == nil && !bytes.Equal(c.body(c.encode(m)), p[:n]) {
					t.Errorf("%s, %s: accepted when cut to %d of %d bytes", c.file, g.name, n, len(p))
				}
			}
		}
	}
}

func TestGoldenReader(t *testing.T) {
	// Goal: a stream gives the same frames and the same error however it is cut into reads.
	for _, g := range readGolden(t, "reader") {
		t.Run(g.name, func(t *testing.T) {
			want := strings.Join(g.want, "\n")
			check := func(cuts ...int) {
				t.Helper()
				if got := readCut(t, g, cuts); got != want {
					t.Fatalf("cut at %v\n got %s\nwant %s", cuts, got, want)
				}
			}
			check()
			if strings.Contains(g.args, "coarse") {
				for _, n := range []int{1, 4, 5, 6, 100, len(g.data) / 2, len(g.data) - 1} {
					check(n)
				}
				return
			}
			var all []int
			for n := 1; n < len(g.data); n++ {
				check(n)
				all = append(all, n)
			}
			check(all...)
		})
	}
}

// readCut feeds a case in the parts that the cuts make, overwriting each part once the reader has returned false, as a
// receive buffer would be.
func readCut(t *testing.T, g goldenCase, cuts []int) string {
	r := readerOf(t, g.args)
	var lines []string
	from := 0
	for _, to := range append(cuts[:len(cuts):len(cuts)], len(g.data)) {
		part := bytes.Clone(g.data[from:to])
		from = to
		r.Feed(part)
		for {
			f, ok, err := r.Next()
			if err != nil {
				d := err.(*DecodeError)
				return strings.Join(append(lines, d.Code.String()+" "+d.Message), "\n")
			}
			if !ok {
				break
			}
			lines = append(lines, frameLine(f))
		}
		clear(part)
	}
	return strings.Join(append(lines, partialLine(r)), "\n")
}
