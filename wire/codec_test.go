// Goal: one table of all decoders and encoders, so that goldens, round trips and fuzz targets miss none.
package wire

import (
	"encoding/hex"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// codec is one decoder with its encoder. arg is what the request's flags announced, for the two results that need it.
type codec struct {
	file   string // of its golden cases
	op     Op     // of the frame, OpOK for results
	answer Op     // for a result, the op that it answers
	decode func(p []byte, arg bool) (any, error)
	encode func(m any) []byte
	// unknown says whether a flags bit is set that version 1 does not know: only then may there be a tail.
	unknown func(m any) bool
}

func never(any) bool { return false }

// op1 makes the codec of a frame op from its struct's methods.
func op1[T any, P interface {
	*T
	Decode([]byte) error
	Append([]byte) []byte
}](file string, op Op, unknown func(m any) bool) codec {
	return codec{file: file, op: op, unknown: unknown,
		decode: func(p []byte, _ bool) (any, error) {
			m := P(new(T))
			return m, m.Decode(p)
		},
		encode: func(m any) []byte { return m.(P).Append(nil) },
	}
}

// res1 makes the codec of a result; decode says how, since two of them take what the request asked for.
func res1[T any, P interface {
	*T
	AppendOK([]byte) []byte
}](file string, op Op, unknown func(m any) bool, decode func(m P, p []byte, arg bool) error) codec {
	return codec{file: file, op: OpOK, answer: op, unknown: unknown,
		decode: func(p []byte, arg bool) (any, error) {
			m := P(new(T))
			return m, decode(m, p, arg)
		},
		encode: func(m any) []byte { return m.(P).AppendOK(nil) },
	}
}

var codecs = []codec{
	op1[Connect]("connect", OpConnect, func(m any) bool { return m.(*Connect).ClientFlags > 1 }),
	op1[Declare]("declare", OpDeclare, func(m any) bool { return m.(*Declare).Flags > 1 }),
	op1[Pub]("pub", OpPub, func(m any) bool { return m.(*Pub).Flags > 1 }),
	op1[Sub]("sub", OpSub, func(m any) bool { return m.(*Sub).Flags > 1 }),
	op1[Ack]("ack", OpAck, func(m any) bool { return m.(*Ack).Flags > 1 }),
	op1[Nack]("nack", OpNack, func(m any) bool { return m.(*Nack).Flags > 1 }),
	op1[Ping]("ping", OpPing, never),
	op1[Err]("err", OpErr, never),
	op1[OK]("ok", OpOK, never),
	op1[Msg]("msg", OpMsg, func(m any) bool { return m.(*Msg).Flags > 3 }),
	op1[Pull]("pull", OpPull, never),
	op1[Heartbeat]("heartbeat", OpHeartbeat, never),
	op1[Notice]("notice", OpNotice, never),
	op1[ControlAck]("control_ack", OpControlAck, never),
	op1[Credit]("credit", OpCredit, never),
	res1[ConnectResult]("result_connect", OpConnect, never,
		func(m *ConnectResult, p []byte, arg bool) error { return m.Decode(p, arg) }),
	res1[DeclareResult]("result_declare", OpDeclare, never,
		func(m *DeclareResult, p []byte, _ bool) error { return m.Decode(p) }),
	res1[PubResult]("result_pub", OpPub, func(m any) bool { return m.(*PubResult).ResultFlags > 1 },
		func(m *PubResult, p []byte, arg bool) error { return m.Decode(p, arg) }),
	res1[SubResult]("result_sub", OpSub, never,
		func(m *SubResult, p []byte, _ bool) error { return m.Decode(p) }),
	res1[CreditResult]("result_credit", OpCredit, never,
		func(m *CreditResult, p []byte, _ bool) error { return m.Decode(p) }),
}

// codecOf finds a codec by the name of its golden file.
func codecOf(file string) codec {
	for _, c := range codecs {
		if c.file == file {
			return c
		}
	}
	panic("no codec " + file)
}

// body is the part of a whole frame that the codec's decoder takes: the payload, or the result inside an OK.
func (c codec) body(frame []byte) []byte {
	p := frame[frameHeaderSize:]
	if c.answer != 0 {
		return p[okHeaderSize:]
	}
	return p
}

// dump writes a decoded struct as the golden files do: Name=value in order of declaration.
func dump(m any) string {
	v := reflect.ValueOf(m).Elem()
	var parts []string
	for i := range v.NumField() {
		parts = append(parts, v.Type().Field(i).Name+"="+dumpValue(v.Field(i).Interface()))
	}
	return strings.Join(parts, " ")
}

func dumpValue(x any) string {
	switch x := x.(type) {
	case EpochList:
		if x.Len() > 8 {
			return fmt.Sprintf("epochs(%d)", x.Len())
		}
		var s []string
		for i := range x.Len() {
			s = append(s, strconv.FormatUint(x.At(i), 10))
		}
		return "[" + strings.Join(s, ",") + "]"
	case []byte:
		if len(x) > 64 {
			return fmt.Sprintf("bytes(%d)", len(x))
		}
		return strconv.Quote(string(x))
	case Code, Op, bool:
		return fmt.Sprint(x)
	}
	return fmt.Sprintf("%d", x)
}

// parseBytes reads the byte notation of the golden files: hex pairs, xx*N for N times a byte, "text"; a comment follows
// a semicolon.
func parseBytes(s string) ([]byte, error) {
	var out []byte
	s, _, _ = strings.Cut(s, " ; ")
	for _, word := range strings.Fields(s) {
		if strings.HasPrefix(word, `"`) {
			t, err := strconv.Unquote(word)
			if err != nil {
				return nil, err
			}
			out = append(out, t...)
			continue
		}
		pair, times, repeated := strings.Cut(word, "*")
		b, err := hex.DecodeString(pair)
		if err != nil {
			return nil, err
		}
		n := 1
		if repeated {
			if n, err = strconv.Atoi(times); err != nil {
				return nil, err
			}
		}
		for range n {
			out = append(out, b...)
		}
	}
	return out, nil
}
