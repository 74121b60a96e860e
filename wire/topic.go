package wire

import (
	"bytes"
	"unicode/utf8"
)

// dlqSuffix ends the name of a topic's dead-letter twin. No other topic may end in it.
const dlqSuffix = ".dlq"

func invalidTopic(message string) *DecodeError {
	return &DecodeError{Code: CodeInvalidTopic, Message: message}
}

var (
	errTopicEmpty    = invalidTopic("a topic name must not be empty")
	errTopicLong     = invalidTopic("a topic name must not be longer than 255 bytes")
	errTopicUTF8     = invalidTopic("a topic name must be UTF-8")
	errTopicToken    = invalidTopic("a topic name must not contain an empty token: no '.' first, last or twice in a row")
	errTopicWildcard = invalidTopic("a topic name must not contain '*', '>', '#' or '+'")
	errTopicDollar   = invalidTopic("a topic name must not begin with '$'")
	errTopicControl  = invalidTopic("a topic name must not contain a control character")
	errTopicSpace    = invalidTopic("a topic name must not contain white space")
	errTopicDLQ      = invalidTopic("a topic name must not end in '.dlq': that is the dead-letter twin of a topic")
)

// CheckTopicName is nil for a name that a topic may have, else an INVALID_TOPIC DecodeError whose message says which
// rule is broken (spec section 3, "Names"). The name of a twin is not such a name: ask IsDLQName first where one may come.
func CheckTopicName(name []byte) error {
	if err := checkTopicText(name); err != nil {
		return err
	}
	if bytes.HasSuffix(name, []byte(dlqSuffix)) {
		return errTopicDLQ
	}
	return nil
}

// checkTopicText is every rule but the one about the suffix. It returns a nil interface where all hold.
func checkTopicText(name []byte) error {
	if len(name) == 0 {
		return errTopicEmpty
	}
	if len(name) > MaxTopicLen {
		return errTopicLong
	}
	if name[0] == '$' {
		return errTopicDollar
	}
	tokenStart := true
	for i := 0; i < len(name); {
		r, n := rune(name[i]), 1
		if r >= utf8.RuneSelf {
			r, n = utf8.DecodeRune(name[i:])
			if r == utf8.RuneError && n == 1 {
				return errTopicUTF8
			}
		}
		switch {
		case r == '.' && tokenStart:
			return errTopicToken
		case r == '*' || r == '>' || r == '#' || r == '+':
			return errTopicWildcard
		case isSpace(r):
			return errTopicSpace
		case isControl(r):
			return errTopicControl
		}
		tokenStart = r == '.'
		i += n
	}
	if tokenStart {
		return errTopicToken
	}
	return nil
}

// isControl is Unicode's general category Cc.
func isControl(r rune) bool { return r < 0x20 || r >= 0x7F && r < 0xA0 }

// isSpace is Unicode's property White_Space.
func isSpace(r rune) bool {
	switch {
	case r < 0x80:
		return r == ' ' || r >= '\t' && r <= '\r'
	case r >= 0x2000 && r <= 0x200A:
		return true
	}
	switch r {
	case 0x85, 0xA0, 0x1680, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000:
		return true
	}
	return false
}

// IsDLQName says whether the name is that of the twin of a topic with a valid name.
func IsDLQName(name []byte) bool {
	_, ok := DLQSource(name)
	return ok
}

// DLQSource is the name of the topic whose twin has the given name, borrowed from it; false where no topic has it.
func DLQSource(name []byte) ([]byte, bool) {
	source, ok := bytes.CutSuffix(name, []byte(dlqSuffix))
	if !ok || len(name) > MaxTopicLen || CheckTopicName(source) != nil {
		return nil, false
	}
	return source, true
}

// DLQName is the name of a topic's twin; false where it would not fit 255 bytes. Such a twin exists, but only its id can
// name it.
func DLQName(source []byte) ([]byte, bool) {
	if len(source)+len(dlqSuffix) > MaxTopicLen {
		return nil, false
	}
	name := make([]byte, 0, len(source)+len(dlqSuffix))
	return append(append(name, source...), dlqSuffix...), true
}

// Partition is where the broker puts a record with the given key when the publisher left the choice to it: FNV-1a of the
// key, 32 bits wide, modulo the partition count, which must not be 0. A record without a key goes round by turns
// instead (spec section 3, "partition").
func Partition(key []byte, partitions uint16) uint16 {
	h := uint32(2166136261)
	for _, c := range key {
		h = (h ^ uint32(c)) * 16777619
	}
	return uint16(h % uint32(partitions))
}
