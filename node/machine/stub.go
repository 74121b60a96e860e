package machine

import "github.com/mortarmq/mortarmq/node/op"

// Machine is the replicated state.
type Machine struct{}

// New gives the state before the first op.
func New() *Machine { return &Machine{} }

// Apply applies one op of the entry whose header is h and fills in res.
func (m *Machine) Apply(h *op.Header, o *op.Op, res *Result) {}

// Applied gives number, epoch and log time of the entry applied last.
func (v View) Applied() (op.Number, op.Epoch, op.LogMillis) { return 0, 0, 0 }

// Settings gives those that the last EpochStart installed.
func (v View) Settings() op.Settings { return op.Settings{} }

// MutationID counts the metadata ops that took effect.
func (v View) MutationID() uint64 { return 0 }

// TopicByName finds a topic, or a twin by its ".dlq" name.
func (v View) TopicByName(name []byte) (TopicView, bool) { return TopicView{}, false }

// Topic finds a topic or twin by id.
func (v View) Topic(id op.TopicID) (TopicView, bool) { return TopicView{}, false }

// NextTopic gives the topic or twin with the lowest id above after.
func (v View) NextTopic(after op.TopicID) (TopicView, bool) { return TopicView{}, false }

// Topics gives the number of topics, twins not counted.
func (v View) Topics() int { return 0 }

// LastSeq gives the last committed sequence of a partition, 0 for none.
func (v View) LastSeq(t op.TopicID, p op.PartitionID) op.Sequence { return 0 }

// Partition gives a partition's log position and counters.
func (v View) Partition(t op.TopicID, p op.PartitionID) (PartitionView, bool) {
	return PartitionView{}, false
}

// Dedup asks the producer's window.
func (v View) Dedup(t op.TopicID, p op.PartitionID, producer, seq uint64) DedupView {
	return DedupView{}
}

// WindowBytes gives what all producer windows cost of ProducerWindowBytes.
func (v View) WindowBytes() uint64 { return 0 }

// ForgetCandidate gives the producer that ForgetProducer should name next: the
// budget is nearly used and it is the one idle longest, for long enough.
func (v View) ForgetCandidate(now op.LogMillis) (t op.TopicID, p op.PartitionID, producer uint64, ok bool) {
	return 0, 0, 0, false
}

// GroupByName finds a group.
func (v View) GroupByName(name []byte) (GroupView, bool) { return GroupView{}, false }

// Group finds a group by id.
func (v View) Group(id op.GroupID) (GroupView, bool) { return GroupView{}, false }

// NextGroup gives the group with the lowest id above after.
func (v View) NextGroup(after op.GroupID) (GroupView, bool) { return GroupView{}, false }

// Groups gives the number of groups.
func (v View) Groups() int { return 0 }

// Owner says who owns a partition.
func (v View) Owner(g op.GroupID, p op.PartitionID) (OwnerView, bool) { return OwnerView{}, false }

// Cursor says how far a group is with a partition.
func (v View) Cursor(g op.GroupID, p op.PartitionID) (CursorView, bool) { return CursorView{}, false }

// Delivery gives the ledger's entry of a sequence that was delivered and is not
// settled.
func (v View) Delivery(g op.GroupID, p op.PartitionID, s op.Sequence) (DeliveryView, bool) {
	return DeliveryView{}, false
}

// NextDelivery gives the entry with the lowest sequence above after.
func (v View) NextDelivery(g op.GroupID, p op.PartitionID, after op.Sequence) (DeliveryView, bool) {
	return DeliveryView{}, false
}

// Settled says whether the group has settled s.
func (v View) Settled(g op.GroupID, p op.PartitionID, s op.Sequence) bool { return false }

// DeadLetter says what became of record s of twin t.
func (v View) DeadLetter(t op.TopicID, p op.PartitionID, s op.Sequence) DeadLetterState {
	return DeadLetterNone
}

// PieceKind is which of a checkpoint's two files a piece belongs to.
type PieceKind uint8

// The kinds of piece.
const (
	PieceLog    PieceKind = iota // positions, producer windows, dead-letter marks
	PieceCursor                  // cursors and ledgers
	pieceKinds
)

// BeginCheckpoint freezes the state as of now for NextCheckpointPiece; Apply
// goes on in between. EncodeMetadata belongs to the same moment if it is called
// before the next Apply.
func (m *Machine) BeginCheckpoint() {}

// NextCheckpointPiece appends the next piece to b, until it holds limit bytes or
// a little more; each call's bytes go to LoadLogPiece or LoadCursorPiece whole
// and in any order. done says that it was the last of its kind.
func (m *Machine) NextCheckpointPiece(kind PieceKind, b []byte, limit int) (out []byte, done bool) {
	return b, true
}

// AbortCheckpoint forgets the checkpoint under way, if any.
func (m *Machine) AbortCheckpoint() {}

// EncodeMetadata appends a snapshot of topics, groups, owners and epochs.
func (m *Machine) EncodeMetadata(b []byte) []byte { return b }

// LoadMetadata replaces the state of an empty machine by a snapshot.
func (m *Machine) LoadMetadata(data []byte) error { return nil }

// ApplyMetadata replays an op of the metadata log during recovery, before the
// pieces are loaded: it changes what EncodeMetadata covers and nothing else.
func (m *Machine) ApplyMetadata(h *op.Header, o *op.Op) {}

// LoadLogPiece loads a piece of the log checkpoint.
func (m *Machine) LoadLogPiece(data []byte) error { return nil }

// LoadCursorPiece loads a piece of the ledger checkpoint.
func (m *Machine) LoadCursorPiece(data []byte) error { return nil }

// FinishLoad must follow the last piece, before the first Apply: it joins what
// came in pieces and checks that it is whole.
func (m *Machine) FinishLoad() error { return nil }

// Check verifies every invariant; it is expensive and meant for tests and the
// simulator.
func (m *Machine) Check() error { return nil }

// Digest is a digest of the whole state: equal on nodes that applied the same
// ops, however they got there.
func (m *Machine) Digest() [16]byte { return [16]byte{} }
