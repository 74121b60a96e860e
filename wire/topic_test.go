// Goal: topic names, group names, twins and the choice of a partition follow the specification.
package wire

import (
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"
)

func TestTopicNames(t *testing.T) {
	// Goal: each rule has a name that breaks only it, and its neighbour that does not.
	long := strings.Repeat("a", 255)
	for _, c := range []struct {
		name string
		want *DecodeError
	}{
		{"a", nil}, {"orders", nil}, {"orders.eu.de", nil}, {"a.b.c.d", nil}, {"Заказы.日本", nil}, {"a$b", nil}, {"a.$b", nil},
		{"a-b_c:d/e~", nil}, {"dlq", nil}, {"a.dlqs", nil}, {"a.dlq.b", nil}, {"a.DLQ", nil}, {"adlq", nil}, {long, nil},
		{"\ufffd", nil}, {"a\u200bb", nil}, {"a<b", nil},
		{"", errTopicEmpty}, {long + "a", errTopicLong}, {strings.Repeat("é", 128), errTopicLong},
		{".", errTopicToken}, {".a", errTopicToken}, {"a.", errTopicToken}, {"a..b", errTopicToken},
		{"*", errTopicWildcard}, {"a.*", errTopicWildcard}, {"a.>", errTopicWildcard}, {"a#", errTopicWildcard}, {"a+b", errTopicWildcard},
		{"$", errTopicDollar}, {"$sys.a", errTopicDollar},
		{"a b", errTopicSpace}, {" a", errTopicSpace}, {"a\t", errTopicSpace}, {"a\u00a0", errTopicSpace}, {"a\u3000b", errTopicSpace},
		{"a\u0085", errTopicSpace}, {"a\x00", errTopicControl}, {"a\x1f", errTopicControl}, {"a\x7f", errTopicControl},
		{"a\u009f", errTopicControl},
		{"\xff", errTopicUTF8}, {"a\xc3", errTopicUTF8}, {"\xed\xa0\x80", errTopicUTF8}, {"\xc0\x80", errTopicUTF8}, {"\xf4\x90\x80\x80", errTopicUTF8},
		{"a.dlq", errTopicDLQ}, {"a.dlq.dlq", errTopicDLQ}, {".dlq", errTopicToken},
	} {
		err := CheckTopicName([]byte(c.name))
		if c.want == nil {
			if err != nil {
				t.Errorf("%q: %v", c.name, err)
			}
		} else if err != error(c.want) {
			t.Errorf("%q: %v, want %v", c.name, err, c.want)
		}
		if err != nil && CodeOf(err) != CodeInvalidTopic {
			t.Errorf("%q: code %v", c.name, CodeOf(err))
		}
	}
}

func TestTopicMessages(t *testing.T) {
	// Goal: the text of every error fits an ERR.
	for _, e := range []*DecodeError{errTopicEmpty, errTopicLong, errTopicUTF8, errTopicToken, errTopicWildcard, errTopicDollar,
		errTopicControl, errTopicSpace, errTopicDLQ, errFrameEarly, errFrameLong, errConnectVersion} {
		if len(e.Message) > MaxErrMessage || e.Message == "" {
			t.Errorf("%q", e.Message)
		}
	}
}

func TestRuneClasses(t *testing.T) {
	// Goal: control characters and white space are those of Unicode, for every rune there is.
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if isControl(r) != unicode.Is(unicode.Cc, r) {
			t.Errorf("%U: control is %v", r, isControl(r))
		}
		if isSpace(r) != unicode.Is(unicode.White_Space, r) {
			t.Errorf("%U: white space is %v", r, isSpace(r))
		}
	}
}

func TestDLQNames(t *testing.T) {
	// Goal: a twin's name leads to its source and back, and nothing else is taken for a twin's name.
	for name, source := range map[string]string{
		"a.dlq": "a", "orders.eu.dlq": "orders.eu", strings.Repeat("a", 251) + ".dlq": strings.Repeat("a", 251),
		"a.dlq.dlq": "", ".dlq": "", "dlq": "", "a": "", "": "", "a b.dlq": "", "$a.dlq": "", "a..dlq": "", "a.DLQ": "",
		strings.Repeat("a", 252) + ".dlq": "", "\xff.dlq": "",
	} {
		got, ok := DLQSource([]byte(name))
		if ok != (source != "") || string(got) != source || IsDLQName([]byte(name)) != ok {
			t.Errorf("%q: source %q, %v", name, got, ok)
		}
		if !ok {
			continue
		}
		if back, ok := DLQName(got); !ok || string(back) != name {
			t.Errorf("%q: back to %q, %v", name, back, ok)
		}
		if CheckTopicName([]byte(name)) == nil {
			t.Errorf("%q is both a twin and a topic", name)
		}
	}
	if _, ok := DLQName([]byte(strings.Repeat("a", 252))); ok {
		t.Error("a twin's name is longer than 255 bytes")
	}
}

func TestPartition(t *testing.T) {
	// Goal: the hash is FNV-1a with its published values, and the result is below the count.
	for key, hash := range map[string]uint32{
		"": 0x811c9dc5, "a": 0xe40c292c, "b": 0xe70c2de5, "foobar": 0xbf9cf968, "\x00": 0x050c5d1f, "\xff\x00\x00\x01": 0xc48fb86d,
	} {
		for _, n := range []uint16{1, 2, 3, 7, 1024, 65535} {
			if got := Partition([]byte(key), n); got != uint16(hash%uint32(n)) {
				t.Errorf("%q of %d: %d, want %d", key, n, got, hash%uint32(n))
			}
		}
	}
}

func TestProducerRules(t *testing.T) {
	// Goal: each way in which producer_id, producer_seq, partition and key can go together is judged as published.
	for _, c := range []struct {
		id, seq   uint64
		partition uint16
		key       string
		want      Code
	}{
		{0, 0, 3, "", CodeOK}, {0, 0, PartitionAny, "", CodeOK}, {0, 0, PartitionAny, "k", CodeOK},
		{0, 1, 3, "", CodeProducerSeqInvalid}, {0, 1, 3, "k", CodeProducerSeqInvalid}, {0, 1, PartitionAny, "k", CodeProducerSeqInvalid},
		{1, 0, 3, "", CodeProducerSeqInvalid}, {1, 0, PartitionAny, "k", CodeProducerSeqInvalid},
		{1, 1, 3, "", CodeOK}, {1, 1, PartitionAny, "k", CodeOK}, {1, 1, PartitionAny, "", CodeProducerSeqInvalid},
		{1, 1, PartitionAny - 1, "", CodeOK},
	} {
		m := Pub{ProducerID: c.id, ProducerSeq: c.seq, Partition: c.partition, Key: []byte(c.key)}
		if got := m.CheckProducer(); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

func TestPartitionCount(t *testing.T) {
	// Goal: 1024 partitions are allowed and 1025 are not, unless the count is ignored.
	for _, c := range []struct {
		count, flags uint16
		want         Code
	}{{0, 0, CodeOK}, {1024, 0, CodeOK}, {1025, 0, CodeMutationNotPackable}, {65535, FlagDeclareDelete, CodeOK}} {
		m := Declare{PartitionCount: c.count, Flags: c.flags}
		if got := m.CheckPartitionCount(); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

func TestErrTextIsCut(t *testing.T) {
	// Goal: a text of any length gives an ERR that decodes, with as much of the text as fits in whole runes.
	rapid.Check(t, func(t *rapid.T) {
		pad := rapid.IntRange(0, MaxErrMessage+8).Draw(t, "pad")
		text := strings.Repeat("a", pad) + strings.Repeat(rapid.SampledFrom([]string{"é", "語", "🙂", "b"}).Draw(t, "rune"), 140)
		var viaText, viaStruct Err
		if err := viaText.Decode(AppendErr(nil, CodeInternal, OpPub, text)[frameHeaderSize:]); err != nil {
			t.Fatal(err)
		}
		m := Err{Code: CodeInternal, RequestOp: OpPub, Message: []byte(text)}
		if err := viaStruct.Decode(m.Append(nil)[frameHeaderSize:]); err != nil {
			t.Fatal(err)
		}
		got := string(viaText.Message)
		if got != string(viaStruct.Message) || !strings.HasPrefix(text, got) || strings.ContainsRune(got, unicode.ReplacementChar) {
			t.Fatalf("%q", got)
		}
		if len(text) > MaxErrMessage && len(got) < MaxErrMessage-3 || len(text) <= MaxErrMessage && got != text {
			t.Fatalf("%d bytes of %d", len(got), len(text))
		}
	})
	var m Err
	bytes := strings.Repeat("\x80", 600)
	if err := m.Decode(AppendErr(nil, CodeInternal, OpPub, bytes)[frameHeaderSize:]); err != nil || len(m.Message) != MaxErrMessage {
		t.Fatalf("%v, %d bytes", err, len(m.Message))
	}
}
