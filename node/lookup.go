package node

import (
	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/node/session"
	"github.com/mortarmq/mortarmq/node/store/segment"
)

// record looks a record up in the store: near the tail at once, further back by
// a read that is now under way.
func (n *Node) record(topic op.TopicID, part op.PartitionID, seq op.Sequence) (format.Record, session.Lookup) {
	rec, status := n.store.Read(topic, part, seq)
	switch status {
	case segment.Hit:
		return rec, session.LookupHit
	case segment.Pending:
		return format.Record{}, session.LookupPending
	case segment.Missing:
		return format.Record{}, session.LookupMissing
	default:
		return format.Record{}, session.LookupDamaged
	}
}
