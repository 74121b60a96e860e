package node

// QueryKind says what the admin port asks for.
type QueryKind uint8

// The kinds of query. Answers are JSON objects with the command line's column
// names as keys, lists under "items" (operations.md, "Admin HTTP").
const (
	QueryInvalid QueryKind = iota
	QueryTopics            // every topic
	QueryTopic             // Topic alone, with its partitions
	QueryBroker            // this node
	QueryLeader            // who leads
	QueryHealth            // status 200, or 503 with the reason
	QueryTail              // records of Topic from From on, at most Max
	QueryGroups            // every group, of Topic if it is named
	QueryGroup             // Group alone, a line per partition
)

// Query is one question. Every slice is owned by the node until its answer.
type Query struct {
	ID    uint64
	Kind  QueryKind
	Topic string
	Group string
	// From gives, per partition, the sequence to read from; missing partitions
	// start at their end less Back records.
	From []uint64
	Back uint64
	Max  int
}

// Answer is a query's answer: an HTTP status and a body, borrowed until the
// next turn.
type Answer struct {
	ID     uint64
	Status int
	Body   []byte
}
