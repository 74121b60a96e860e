package node

import (
	"github.com/mortarmq/mortarmq/fault"
	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/machine"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/node/replica"
	"github.com/mortarmq/mortarmq/node/store"
	"github.com/mortarmq/mortarmq/wire"
)

// onStoreEvent takes one event of the store: recovery first, then flushes and
// what goes on behind them.
func (n *Node) onStoreEvent(ev *store.Event) {
	switch ev.Kind {
	case store.EventFresh:
		n.logf(LevelInfo, "empty data directory: forming a new cluster of one node")
		n.store.Form(store.Identity{ClusterID: n.config.NewClusterID, NodeID: n.config.Store.NodeID})
	case store.EventMetadataSnapshot:
		n.loaded(n.machine.LoadMetadata(ev.Data), "metadata snapshot")
	case store.EventMetadataOp:
		n.loadMetadataOp(ev)
	case store.EventLogCheckpoint:
		n.loaded(n.machine.LoadLogPiece(ev.Data), "log checkpoint")
	case store.EventCursorCheckpoint:
		n.loaded(n.machine.LoadCursorPiece(ev.Data), "ledger checkpoint")
	case store.EventCheckpointLoaded:
		n.loaded(n.machine.FinishLoad(), "checkpoint")
		n.appliedHeader = op.Header{Number: ev.Number, Epoch: ev.Epoch, LogTime: ev.LogTime}
		n.appliedHash = ev.Hash
	case store.EventEntry:
		n.apply(&ev.Entry)
		n.replayed++
	case store.EventRecovered:
		n.onRecovered(ev)
	case store.EventSuperblockDurable:
		start := op.Op{Kind: op.KindEpochStart, Settings: n.config.Settings}
		if n.replica.OnEpochsDurable(&start) {
			n.refs.push(noRef)
		}
	case store.EventFlushed:
		n.onFlushed(ev.Number)
	default:
		n.onStoreTrouble(ev)
	}
}

// onStoreTrouble takes the events that are not part of the ordinary course.
func (n *Node) onStoreTrouble(ev *store.Event) {
	switch ev.Kind {
	case store.EventReadReady:
		n.sessions.OnRecords(n.now, ev.Topic, ev.Partition)
	case store.EventCheckpointDone:
		n.checkpoint.done()
		n.meters.checkpoint, n.meters.checkpointAt = ev.Number, n.now.Mono
		n.logf(LevelDebug, "checkpoint at op %d", ev.Number)
	case store.EventSnapshotWritten:
		n.checkpoint.snapshot = false
	case store.EventSpaceChanged:
		was := n.space.low
		n.space = spaceState{free: ev.Free, total: ev.Total, low: ev.Low}
		switch {
		case ev.Low == was:
		case ev.Low:
			n.logf(LevelWarn, "free space is below storage_reserve (%d of %d bytes free): publishes are refused until space is freed", ev.Free, ev.Total)
		default:
			n.logf(LevelInfo, "free space is above storage_reserve (%d of %d bytes free)", ev.Free, ev.Total)
		}
	case store.EventJournalStalled:
		n.stalled = true
		n.logf(LevelError, "the disk is full: the journal waits for space, nothing is acknowledged until it has some")
	case store.EventTornTail:
		n.config.Marks.Mark("node.torn_tail")
		n.logf(LevelWarn, "cut an unsynced end off the journal: %s offset %d (%s); nothing in it was acknowledged", ev.Path, ev.Offset, ev.What)
	case store.EventDamage:
		if ev.Fatal {
			n.endDamaged(ev)
			return
		}
		n.markDamaged(Damage{partitionRef: partitionRef{ev.Topic, ev.Partition}, Path: ev.Path, Offset: ev.Offset, Sequence: ev.Sequence, What: ev.What})
	case store.EventJournalFailed:
		n.exit(true, "not durable: "+ev.What+": nothing since the last answer is acknowledged; check the disk, then start again")
	case store.EventCheckpointStalled, store.EventSegmentStalled:
		n.logf(LevelWarn, "the disk is full: %s waits for space (%s); the journal does not", ev.Path, ev.Err.String())
	case store.EventRepaired:
		n.logf(LevelDebug, "recovery set %s right at offset %d", ev.Path, ev.Offset)
	case store.EventRefused:
		n.exit(true, ev.What)
	default:
		n.logf(LevelDebug, "store: %s", ev.Kind.String())
	}
}

// loaded ends the node when a checkpoint's content cannot be understood: its
// checksum held, so another binary wrote it.
func (n *Node) loaded(err error, what string) {
	if err != nil && n.phase != phaseEnded {
		n.exit(true, "the "+what+" cannot be loaded: "+err.Error())
	}
}

func (n *Node) loadMetadataOp(ev *store.Event) {
	rest, err := n.op.Decode(ev.Data)
	if err == nil && len(rest) != 0 {
		err = op.ErrEntry
	}
	if err != nil {
		n.loaded(err, "metadata log")
		return
	}
	n.machine.ApplyMetadata(&ev.Header, &n.op)
}

func (n *Node) onRecovered(ev *store.Event) {
	n.phase = phaseStanding
	n.logf(LevelInfo, "recovered: last op %d, %d entries replayed", ev.Number, n.replayed)
	ok := n.replica.Start(n.now.Mono, replica.State{
		Promised:  ev.Promised,
		Installed: ev.Installed,
		Last:      ev.Number,
		LastHash:  ev.Hash,
		LogTime:   ev.LogTime,
	})
	if !ok {
		n.exit(true, epochsUsedUp)
	}
}

const epochsUsedUp = "the leader epochs are used up: this directory can be read, but not served any more"

// onFlushed commits and applies what the journal holds now.
func (n *Node) onFlushed(number op.Number) {
	n.stalled = false
	n.replica.OnFlushed(number)
	n.meters.flushed(n.now.Mono)
	for {
		e, ok := n.replica.NextCommitted()
		if !ok {
			break
		}
		n.apply(&e)
		n.meters.entryOps.observe(uint64(e.Header.Ops))
		if n.phase == phaseStanding && n.replica.Serving() {
			n.phase = phaseServing
			n.logf(LevelInfo, "serving: leader epoch %d", n.replica.Epoch())
			n.sessions.OnEpoch(n.now, n.replica.Epoch(), true)
		}
	}
}

// apply applies every op of a committed entry: invariant 2.
func (n *Node) apply(e *op.Entry) {
	h := &e.Header
	if h.Number <= n.appliedHeader.Number && fault.On("apply_before_commit") {
		return
	}
	if h.Number != n.appliedHeader.Number+1 {
		panic("node: invariant 2: entries are not applied in order")
	}
	own := n.phase >= phaseStanding && h.Epoch == n.replica.Epoch()
	body := e.Body
	for range h.Ops {
		rest, err := n.op.Decode(body)
		if err != nil {
			panic("node: an entry whose checksum holds does not decode: " + err.Error())
		}
		encoded := body[:len(body)-len(rest)]
		body = rest
		if n.phase == phaseRecovering && n.op.Kind == op.KindAck && fault.On("ledger_not_replayed") {
			continue
		}
		n.machine.Apply(h, &n.op, &n.result)
		n.keep(h, encoded)
		if own {
			ref := n.refs.pop()
			n.sessions.OnApplied(n.now, h, &n.op, &n.result, ref)
			if ref.Kind == refChange {
				n.changeApplied(ref.Arg, &n.op, &n.result)
			}
			if n.result.Code == wire.CodeDLQPathOverflow {
				n.tellQuarantine()
			}
		}
	}
	n.appliedHeader, n.appliedHash = *h, e.Hash()
}

// keep hands what the op changed to the store, behind the journal.
func (n *Node) keep(h *op.Header, encoded []byte) {
	if a := &n.result.Append; a.Present {
		flags := uint16(0)
		if n.op.Flags&op.FlagKey != 0 {
			flags = format.RecordFlagKey
		}
		envelope := n.op.Envelope
		if format.RecordKind(a.Kind) != format.RecordDeadLetter {
			envelope = nil // a redriven message comes back as it was
		}
		n.store.AppendRecord(a.Topic, a.Partition, &format.Record{
			Kind:        format.RecordKind(a.Kind),
			Flags:       flags,
			Sequence:    a.Sequence,
			ProducerID:  a.ProducerID,
			ProducerSeq: a.ProducerSeq,
			Timestamp:   a.Timestamp,
			LeaderEpoch: a.LeaderEpoch,
			Key:         n.op.Key,
			Envelope:    envelope,
			Value:       n.op.Value,
		})
	}
	if n.op.Kind.Metadata() && n.result.Code == wire.CodeOK {
		n.store.AppendMetadata(*h, encoded)
		n.keepTopic()
	}
}

// keepTopic makes the store know the partitions of a topic that was created, and
// forget those of one that was deleted; the twin's as well.
func (n *Node) keepTopic() {
	id := n.result.TopicID
	switch {
	case n.op.Kind == op.KindTopicCreate && n.result.Created == machine.CreatedNew:
		for p := range n.result.Partitions {
			n.store.CreatePartition(id, op.PartitionID(p))
			n.store.CreatePartition(id+1, op.PartitionID(p))
		}
	case n.op.Kind == op.KindTopicDelete && n.result.Created == machine.CreatedDeleted:
		n.store.DropTopic(id)
		n.store.DropTopic(id + 1)
		n.damages.forget(id)
		n.damages.forget(id + 1)
	}
}
