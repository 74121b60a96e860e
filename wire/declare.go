package wire

// FlagDeclareDelete turns a DECLARE into the removal of topic, twin and groups.
const FlagDeclareDelete uint16 = 1 << 0

const declareFlags = FlagDeclareDelete

// DeclareOutcome is the created field of DECLARE's OK.
type DeclareOutcome uint8

const (
	// DeclareCreated says that the topic is new.
	DeclareCreated DeclareOutcome = 0
	// DeclareIdempotent says that the topic was there, as it was asked for.
	DeclareIdempotent DeclareOutcome = 1
	// DeclareDeleted answers DELETE of a topic that was there; topic_id and partition_count are 0.
	DeclareDeleted DeclareOutcome = 2
	// DeclareNotFound answers DELETE of a topic that was not; topic_id and partition_count are 0.
	DeclareNotFound DeclareOutcome = 3
)

const (
	declareFixed      = 6
	declareResultSize = 5
)

var (
	errDeclareShort     = malformed("DECLARE ends before its last field")
	errDeclareLong      = malformed("DECLARE topic is longer than 255 bytes")
	errDeclareTopic     = malformed("DECLARE topic_len reaches beyond the payload")
	errDeclareTail      = malformed("DECLARE has bytes after its last field that no flag announces")
	errDeclareResult    = malformed("OK of DECLARE ends before its last field")
	errDeclareCreated   = malformed("OK of DECLARE has a created that is none of 0, 1, 2 and 3")
	errDeclareGone      = malformed("OK of DECLARE for a DELETE names a topic_id or a partition_count")
	errDeclareResultLen = malformed("OK of DECLARE has bytes after its last field")
)

// Declare is the payload of DECLARE (spec sections 2 and 3, "Topics").
//
//	offset  size  field
//	0       2     topic_len
//	2       T     topic
//	2+T     2     partition_count, 0 for the configured default
//	4+T     2     flags: bit0 DELETE
//
// Decode judges the length of the topic only. The name is judged by IsDLQName and CheckTopicName, since a name that
// breaks a rule is answered with INVALID_TOPIC and does not close the connection.
type Declare struct {
	Topic          []byte // borrowed from the payload
	PartitionCount uint16
	Flags          uint16
}

// Decode reads a payload. After an error m holds nothing of use.
func (m *Declare) Decode(p []byte) error {
	if len(p) < declareFixed {
		return errDeclareShort
	}
	n := int(be.Uint16(p))
	if n > MaxTopicLen {
		return errDeclareLong
	}
	if n > len(p)-declareFixed {
		return errDeclareTopic
	}
	m.Topic = p[2 : 2+n : 2+n]
	m.PartitionCount = be.Uint16(p[2+n:])
	m.Flags = be.Uint16(p[4+n:])
	if len(p) > declareFixed+n && m.Flags&^declareFlags == 0 {
		return errDeclareTail
	}
	return nil
}

// CheckPartitionCount is MUTATION_NOT_PACKABLE for a count above MaxPartitions, else CodeOK. DELETE ignores the count.
func (m *Declare) CheckPartitionCount() Code {
	if m.Flags&FlagDeclareDelete == 0 && m.PartitionCount > MaxPartitions {
		return CodeMutationNotPackable
	}
	return CodeOK
}

// Append appends the whole frame.
func (m *Declare) Append(b []byte) []byte {
	assert(len(m.Topic) <= MaxTopicLen, "DECLARE topic is longer than MaxTopicLen")
	b = appendHead(b, OpDeclare, declareFixed+len(m.Topic))
	b = be.AppendUint16(b, uint16(len(m.Topic)))
	b = append(b, m.Topic...)
	b = be.AppendUint16(b, m.PartitionCount)
	return be.AppendUint16(b, m.Flags)
}

// DeclareResult is the result in DECLARE's OK.
//
//	offset  size  field
//	0       2     topic_id
//	2       2     partition_count
//	4       1     created
type DeclareResult struct {
	TopicID        uint16
	PartitionCount uint16
	Created        DeclareOutcome
}

// Decode reads a result.
func (m *DeclareResult) Decode(p []byte) error {
	if len(p) < declareResultSize {
		return errDeclareResult
	}
	if len(p) > declareResultSize {
		return errDeclareResultLen
	}
	m.TopicID = be.Uint16(p)
	m.PartitionCount = be.Uint16(p[2:])
	m.Created = DeclareOutcome(p[4])
	if m.Created > DeclareNotFound {
		return errDeclareCreated
	}
	if m.Created >= DeclareDeleted && (m.TopicID != 0 || m.PartitionCount != 0) {
		return errDeclareGone
	}
	return nil
}

// AppendOK appends the whole OK frame.
func (m *DeclareResult) AppendOK(b []byte) []byte {
	b = appendOKHead(b, OpDeclare, declareResultSize)
	b = be.AppendUint16(b, m.TopicID)
	b = be.AppendUint16(b, m.PartitionCount)
	return append(b, byte(m.Created))
}
