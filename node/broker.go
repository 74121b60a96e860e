package node

import (
	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/node/replica"
	"github.com/mortarmq/mortarmq/node/session"
	"github.com/mortarmq/mortarmq/wire"
)

// noRef stands for an op that nobody waits for.
var noRef session.Ref

// broker is the node as session sees it.
type broker struct{ n *Node }

// Propose puts o into the log, or says why not. What depends on this node alone
// is decided here and never in Apply (architecture.md).
func (b broker) Propose(o *op.Op, ref session.Ref) wire.Code {
	n := b.n
	if !n.replica.Serving() {
		return wire.CodeMetadataReadOnly
	}
	switch o.Kind {
	case op.KindPublish, op.KindDeadLetter, op.KindRedrive:
		if n.space.low {
			return wire.CodeStorageHighWatermark
		}
		if code := n.writable(o); code != wire.CodeOK {
			return code
		}
		if n.replica.Pending() > replica.PendingBytesMax || n.store.JournalFull() {
			return wire.CodeBackpressure
		}
	}
	if !n.replica.Propose(o) {
		return wire.CodeMetadataReadOnly
	}
	n.refs.push(ref)
	if o.Kind == op.KindDeliver {
		n.measure(o)
	}
	return wire.CodeOK
}

// writable says whether the partition that o appends to can take a record: a
// dead letter goes to the twin, a redriven one back to its source.
func (n *Node) writable(o *op.Op) wire.Code {
	switch {
	case o.Kind == op.KindDeadLetter && o.Topic%2 == 1 && n.damages.of(o.Topic+1, o.Partition) != nil:
		return wire.CodeDLQUnavailable
	case o.Kind == op.KindRedrive && n.damages.of(o.Topic-1, o.Partition) != nil,
		o.Kind == op.KindPublish && n.damages.of(o.Topic, o.Partition) != nil:
		return wire.CodeInternal
	}
	return wire.CodeOK
}

// Refusing says why changes are refused at the moment, or CodeOK.
func (b broker) Refusing() wire.Code {
	if !b.n.replica.Serving() {
		return wire.CodeMetadataReadOnly
	}
	return wire.CodeOK
}

// Record looks a record up near the tail, or starts to read it.
func (b broker) Record(topic op.TopicID, part op.PartitionID, seq op.Sequence) (format.Record, session.Lookup) {
	return b.n.record(topic, part, seq)
}

// LogTime gives log time now.
func (b broker) LogTime() op.LogMillis { return b.n.replica.LogTime(b.n.now.Mono) }

// tellQuarantine logs that a dead letter died again: nobody else will look.
func (n *Node) tellQuarantine() {
	g, _ := n.view.Group(n.op.Group)
	t, _ := n.view.Topic(n.op.Topic)
	n.logf(LevelWarn, "DLQ_PATH_OVERFLOW: dead letter %d of %s partition %d died again for group %s: it is settled as quarantined and stays there", n.op.Sequence, t.Name, n.op.Partition, g.Name)
}
