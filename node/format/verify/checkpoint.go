package verify

import (
	"errors"
	"slices"

	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/op"
)

// checkpoints checks the set that the superblock names. Without a superblock the
// newest log checkpoint that is whole says where partitions end.
func (v *verifier) checkpoints() {
	var have [2]bool
	var logs []op.Number
	for _, e := range v.list(format.CheckpointsDir) {
		path := format.CheckpointsDir + "/" + e.Name
		number, cursor, ok := format.ParseCheckpointName(e.Name)
		switch {
		case !ok || e.Dir:
			v.add(Note, path, 0, 0, "is not a file of the broker")
		case v.super == nil:
			if !cursor {
				logs = append(logs, number)
			}
		case number != v.super.CheckpointOp:
			v.add(Note, path, 0, 0, "of a checkpoint that the superblock does not name: the next start removes it")
		case cursor:
			have[1] = true
		default:
			have[0] = true
		}
	}
	if v.super == nil {
		v.newestCheckpoint(logs)
		return
	}
	if v.super.CheckpointOp == 0 {
		return
	}
	for i, path := range [...]string{format.LogCheckpointName(v.super.CheckpointOp), format.CursorCheckpointName(v.super.CheckpointOp)} {
		if !have[i] {
			v.add(Damage, path, 0, 0, "the file is missing")
			continue
		}
		magic := [...]string{format.LogCheckpointMagic, format.CursorCheckpointMagic}[i]
		v.checkpoint(path, magic)
	}
}

// newestCheckpoint takes positions from the newest whole log checkpoint.
func (v *verifier) newestCheckpoint(logs []op.Number) {
	for len(logs) > 0 {
		newest := 0
		for i := range logs {
			if logs[i] > logs[newest] {
				newest = i
			}
		}
		before := len(v.report.Findings)
		v.positions = nil
		v.checkpoint(format.LogCheckpointName(logs[newest]), format.LogCheckpointMagic)
		if len(v.report.Findings) == before {
			return
		}
		logs = append(logs[:newest], logs[newest+1:]...)
	}
	v.positions = nil
}

// checkpoint checks a checkpoint file whole, and takes its positions.
func (v *verifier) checkpoint(path, magic string) {
	w := v.open(path)
	if w == nil {
		return
	}
	defer v.close(w, path)
	h, err := format.DecodeCheckpointHeader(w.need(0, format.CheckpointHeaderSize), magic)
	if err != nil {
		v.addErr(Damage, path, 0, 0, err)
		return
	}
	v.report.saw(magic, 1)
	if !v.cluster(Damage, path, h.ClusterID) {
		return
	}
	if s := v.super; s != nil && (h.Number != s.CheckpointOp || h.Epoch != s.CheckpointEpoch || h.Hash != s.CheckpointHash || h.LogTime != s.CheckpointTime) {
		v.add(Damage, path, 0, uint64(h.Number), "is not the checkpoint that the superblock names")
		return
	}
	var held heldWalk
	at := int64(format.CheckpointHeaderSize)
	for number := uint32(0); ; number++ {
		size, err := format.BlockSize(w.need(at, 4))
		var k format.Block
		if err == nil {
			k, _, err = format.DecodeBlock(w.need(at, size), h.Seed())
		}
		if err != nil {
			v.add(Damage, path, at, uint64(h.Number), err.Error())
			return
		}
		if k.Number != number {
			v.add(Damage, path, at, uint64(h.Number), "a block's number jumps")
			return
		}
		if (k.Kind == format.BlockPositions || k.Kind == format.BlockHeld) && magic == format.CursorCheckpointMagic {
			v.add(Damage, path, at, uint64(h.Number), "a block of positions or held records in a ledger checkpoint")
			return
		}
		if k.Kind == format.BlockPositions && !v.takePositions(path, at, k.Payload) {
			return
		}
		if k.Kind == format.BlockHeld && !v.takeHeld(&held, k.Payload) || k.Kind == format.BlockEnd && len(held.rest) > 0 {
			v.add(Damage, path, at, uint64(h.Number), "a held record is damaged or missing")
			return
		}
		at += int64(size)
		if k.Kind == format.BlockEnd {
			break
		}
	}
	if at != w.f.Size() {
		v.add(Note, path, at, uint64(h.Number), "there are bytes behind the last block: nothing reads them")
	}
}

// takePositions notes where partitions end; they come in order.
func (v *verifier) takePositions(path string, at int64, b []byte) bool {
	for ; len(b) > 0; b = b[format.PositionSize:] {
		p, err := format.DecodePosition(b)
		if n := len(v.positions); err == nil && n > 0 && key(v.positions[n-1].Topic, v.positions[n-1].Partition) >= key(p.Topic, p.Partition) {
			v.add(Damage, path, at, 0, "positions are out of order")
			return false
		}
		if err != nil {
			v.add(Damage, path, at, 0, err.Error())
			return false
		}
		v.positions = append(v.positions, p)
	}
	return true
}

// heldWalk is a walk over the records that damaged partitions hold.
type heldWalk struct {
	begun bool
	key   uint32
	next  op.Sequence
	rest  []byte // of a record that goes on in the next block
}

// takeHeld takes in a block of held records. They follow the position of their
// partition without a gap.
func (v *verifier) takeHeld(k *heldWalk, payload []byte) bool {
	h, err := format.DecodeHeld(payload)
	if err != nil {
		return false
	}
	if at := key(h.Topic, h.Partition); !k.begun || at != k.key {
		i := slices.IndexFunc(v.positions, func(p format.Position) bool { return key(p.Topic, p.Partition) == at })
		if i < 0 || len(k.rest) > 0 || k.begun && at < k.key {
			return false
		}
		k.begun, k.key, k.next = true, at, v.positions[i].Last+1
	}
	k.rest = append(k.rest, h.Records...)
	b := k.rest
	for {
		rec, n, err := format.DecodeRecord(b)
		if errors.Is(err, format.ErrRecordShort) {
			k.rest = append(k.rest[:0], b...)
			return true
		}
		if err != nil || rec.Sequence != k.next {
			return false
		}
		k.next++
		v.report.Records++
		b = b[n:]
	}
}

// key orders partitions by topic and number.
func key(topic op.TopicID, part op.PartitionID) uint32 { return uint32(topic)<<16 | uint32(part) }
