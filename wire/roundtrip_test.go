// Goal: whatever a struct holds within the rules comes back from its frame, with and without tails.
package wire

import (
	"bytes"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

// within bends a randomly filled struct until it obeys the rules that Decode enforces.
func within(t *rapid.T, m any) {
	switch m := m.(type) {
	case *Connect:
		m.ProtocolVersion = Version
	case *Sub:
		m.Group = []byte(rapid.StringOfN(rapid.RuneFrom([]rune("ab .é語🙂")), 1, 60, MaxGroupLen).Draw(t, "group"))
		m.Partition = PartitionAny
		m.StartPolicy %= 2
	case *Nack:
		m.Reason %= 3
		if m.Flags&FlagNackDelay == 0 {
			m.DelayMs = 0
		}
	case *Msg:
		m.Attempt = max(m.Attempt, 1)
	case *Pull:
		m.OwnershipEpochs = AppendEpochs(nil, rapid.SliceOfN(rapid.Uint64(), 0, 40).Draw(t, "epochs")...)
	case *Heartbeat:
		m.State %= 2
	case *Notice:
		m.Kind %= 2
	case *ControlAck:
		m.NoticeKind %= 2
		m.Result %= 3
	case *Credit:
		m.Mode %= 2
	case *ConnectResult:
		if !m.HasHint {
			*m = ConnectResult{}
		}
	case *DeclareResult:
		if m.Created %= 4; m.Created >= DeclareDeleted {
			m.TopicID, m.PartitionCount = 0, 0
		}
	case *PubResult:
		m.Durability %= 2
		if !m.HasPartition {
			m.Partition = 0
		}
	}
}

// fill draws every field of a struct.
func fill(t *rapid.T, m any) {
	v := reflect.ValueOf(m).Elem()
	for i := range v.NumField() {
		f, name := v.Field(i), v.Type().Field(i).Name
		switch f.Kind() {
		case reflect.Bool:
			f.SetBool(rapid.Bool().Draw(t, name))
		case reflect.Slice:
			f.SetBytes(rapid.SliceOfN(rapid.Byte(), 0, 80).Draw(t, name))
		default:
			f.SetUint(rapid.Uint64Max(1<<f.Type().Bits()-1).Draw(t, name))
		}
	}
	within(t, m)
}

// announced is what the request must have asked for so that the result looks as it does.
func announced(m any) bool {
	switch m := m.(type) {
	case *ConnectResult:
		return m.HasHint
	case *PubResult:
		return m.HasPartition
	}
	return false
}

func TestRoundTrips(t *testing.T) {
	// Goal: Decode undoes Append for every op and every result, behind any prefix and through a reader.
	for _, c := range codecs {
		t.Run(c.file, func(t *testing.T) {
			zero, _ := c.decode(nil, false)
			kind := reflect.TypeOf(zero).Elem()
			rapid.Check(t, func(t *rapid.T) {
				m := reflect.New(kind).Interface()
				fill(t, m)
				frame := c.encode(m)
				var r FrameReader
				r.Feed(frame)
				f, ok, err := r.Next()
				if err != nil || !ok || f.Op != c.op || f.Size() != len(frame) {
					t.Fatalf("the reader gives %v, %v, %v", f.Op, ok, err)
				}
				got, err := c.decode(c.body(frame), announced(m))
				if err != nil {
					t.Fatalf("%s: %v", dump(m), err)
				}
				noSpareCapacity(t, got)
				if dump(got) != dump(m) || !bytes.Equal(c.encode(got), frame) {
					t.Fatalf("\n got %s\nwant %s", dump(got), dump(m))
				}
			})
		})
	}
}

// noSpareCapacity is W6: appending to a borrowed slice must not overwrite what lies behind it in the receive buffer.
func noSpareCapacity(t *rapid.T, m any) {
	v := reflect.ValueOf(m).Elem()
	for i := range v.NumField() {
		if f := v.Field(i); f.Kind() == reflect.Slice && f.Cap() != f.Len() {
			t.Fatalf("%s has spare capacity", v.Type().Field(i).Name)
		}
	}
}

func TestDecodeReusesStructs(t *testing.T) {
	// Goal: callers reuse one struct per op, so an optional field of the frame before must not shine through.
	body := func(frame []byte) []byte { return frame[frameHeaderSize:] }
	nack := Nack{Flags: FlagNackDelay, DelayMs: 5}
	if err := nack.Decode(body((&Nack{}).Append(nil))); err != nil || nack.DelayMs != 0 {
		t.Errorf("NACK: %v, delay %d", err, nack.DelayMs)
	}
	pub := PubResult{HasPartition: true, Partition: 5}
	if err := pub.Decode(body((&PubResult{}).AppendOK(nil))[okHeaderSize:], true); err != nil || pub.HasPartition || pub.Partition != 0 {
		t.Errorf("PUB: %v, partition %d", err, pub.Partition)
	}
	connect := ConnectResult{HasHint: true, NodeID: 5, Addr: []byte("h:1")}
	if err := connect.Decode(nil, true); err != nil || connect.HasHint || connect.NodeID != 0 || connect.Addr != nil {
		t.Errorf("CONNECT: %v, %s", err, dump(&connect))
	}
}

func TestTails(t *testing.T) {
	// Goal: W4 for every op: a tail is ignored where an unknown flag is set, and refused everywhere else.
	for _, c := range codecs {
		t.Run(c.file, func(t *testing.T) {
			zero, _ := c.decode(nil, false)
			kind := reflect.TypeOf(zero).Elem()
			rapid.Check(t, func(t *rapid.T) {
				m := reflect.New(kind).Interface()
				fill(t, m)
				tail := rapid.SliceOfN(rapid.Byte(), 1, 40).Draw(t, "tail")
				body := append(bytes.Clone(c.body(c.encode(m))), tail...)
				got, err := c.decode(body, announced(m))
				if c.unknown(m) {
					if err != nil || dump(got) != dump(m) {
						t.Fatalf("%s with a tail: %v", dump(m), err)
					}
				} else if CodeOf(err) != CodeMalformedPayload {
					t.Fatalf("%s with a tail was accepted: %v", dump(m), err)
				}
			})
		})
	}
}

func TestAppendKeepsWhatIsThere(t *testing.T) {
	// Goal: encoders append: what stood in the buffer stays, and several frames follow each other.
	b := []byte("kept")
	b = (&Ping{}).Append(b)
	b = AppendErr(b, CodeInternal, OpNone, "text")
	b = AppendOKEmpty(b, OpAck)
	b = (&SubResult{SubscriptionID: 1}).AppendOK(b)
	if !bytes.HasPrefix(b, []byte("kept")) {
		t.Fatal("the prefix was overwritten")
	}
	var r FrameReader
	r.Feed(b[4:])
	frames, err := drain(t, &r)
	if err != nil || len(frames) != 4 || r.Partial() != 0 {
		t.Fatalf("%d frames, %v", len(frames), err)
	}
}

func TestAppendHeader(t *testing.T) {
	// Goal: header and value sent one behind the other are the frame that Append makes.
	value := bytes.Repeat([]byte{1, 2, 3}, 1000)
	pub := Pub{TopicID: 1, Key: []byte("k"), Value: value}
	msg := Msg{TopicID: 1, Attempt: 1, Key: []byte("k"), Value: value}
	if !bytes.Equal(append(pub.AppendHeader(nil, len(value)), value...), pub.Append(nil)) {
		t.Error("PUB differs")
	}
	if !bytes.Equal(append(msg.AppendHeader(nil, len(value)), value...), msg.Append(nil)) {
		t.Error("MSG differs")
	}
}

func TestAppendPanics(t *testing.T) {
	// Goal: W5, what does not fit its length field is never written.
	long := func(n int) []byte { return make([]byte, n) }
	for name, f := range map[string]func(){
		"connect token":   func() { (&Connect{Token: long(MaxTokenLen + 1)}).Append(nil) },
		"declare topic":   func() { (&Declare{Topic: long(MaxTopicLen + 1)}).Append(nil) },
		"pub key":         func() { (&Pub{Key: long(MaxKeyLen + 1)}).Append(nil) },
		"pub value":       func() { (&Pub{}).AppendHeader(nil, MaxValueLen+1) },
		"pub negative":    func() { (&Pub{}).AppendHeader(nil, -1) },
		"msg key":         func() { (&Msg{Attempt: 1, Key: long(MaxKeyLen + 1)}).Append(nil) },
		"msg value":       func() { (&Msg{Attempt: 1}).AppendHeader(nil, MaxValueLen+1) },
		"msg attempt":     func() { (&Msg{}).Append(nil) },
		"sub group":       func() { (&Sub{Group: long(MaxGroupLen + 1)}).Append(nil) },
		"pull half epoch": func() { (&Pull{OwnershipEpochs: long(9)}).Append(nil) },
		"pull too many":   func() { (&Pull{OwnershipEpochs: long(8 * (maxEpochs + 1))}).Append(nil) },
		"ok result":       func() { appendOKHead(nil, OpPull, MaxOKResultLen+1) },
		"connect addr":    func() { (&ConnectResult{HasHint: true, Addr: long(1 << 16)}).AppendOK(nil) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
}
