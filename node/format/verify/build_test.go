package verify

import (
	"bytes"
	"hash/crc32"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/node/store/segment"
	"github.com/mortarmq/mortarmq/sim/simdisk"
)

// tree is a data directory in memory.
type tree map[string][]byte

func (t tree) List(dir string) ([]Entry, error) {
	var all []Entry
	for _, path := range slices.Sorted(maps.Keys(t)) {
		rest, ok := path, true
		if dir != "" {
			rest, ok = strings.CutPrefix(path, dir+"/")
		}
		if !ok {
			continue
		}
		name, _, deeper := strings.Cut(rest, "/")
		if n := len(all); n > 0 && all[n-1].Name == name {
			continue
		}
		e := Entry{Name: name, Dir: deeper}
		if !deeper {
			e.Size = int64(len(t[path]))
		}
		all = append(all, e)
	}
	return all, nil
}

type memory struct{ *bytes.Reader }

func (memory) Close() error { return nil }

func (t tree) Open(path string) (File, error) {
	b, ok := t[path]
	if !ok {
		return nil, io.ErrUnexpectedEOF
	}
	return memory{bytes.NewReader(b)}, nil
}

func (t tree) clone() tree {
	c := tree{}
	for path, b := range t {
		c[path] = bytes.Clone(b)
	}
	return c
}

var testCluster = [16]byte{0xC0, 15: 0x01}

// segmentsOf appends count records to two partitions of topic 1 and one of its
// twin, by the broker's own code, and gives the files and positions.
func segmentsOf(t *testing.T, count int) (tree, []segment.Position) {
	t.Helper()
	d := simdisk.New(simdisk.Options{Seed: 1})
	s := segment.New(segment.Options{SegmentMaxBytes: 32 << 10, ClusterID: testCluster})
	s.Recover(nil, true)
	var now clock.Instant
	var ev segment.Event
	wait := func(kind segment.EventKind) {
		for range 10_000 {
			d.Submit(s.Take(nil))
			for s.Next(&ev) {
				if ev.Kind == kind {
					return
				}
			}
			now = max(now, min(d.NextDeadline(), now+1e9))
			d.Advance(now)
			s.Tick(now)
			for _, c := range d.Poll(nil) {
				s.Complete(&c)
			}
		}
		t.Fatalf("no event %d", kind)
	}
	wait(segment.EventRecovered)
	partitions := []segment.Position{{Topic: 1, Partition: 0}, {Topic: 1, Partition: 1}, {Topic: 2, Partition: 0}, {Topic: 3, Partition: 0}}
	for _, p := range partitions {
		s.CreatePartition(p.Topic, p.Partition)
	}
	for seq := op.Sequence(1); int(seq) <= count; seq++ {
		for _, p := range partitions[:3] {
			r := format.Record{Flags: format.RecordFlagKey, Sequence: seq, ProducerID: 7, ProducerSeq: uint64(seq), Timestamp: 1700000000000 + uint64(seq), LeaderEpoch: 1, Key: []byte{'k', byte('0' + seq%10)}, Value: bytes.Repeat([]byte{'v'}, 900)}
			if p.Topic == 2 {
				e := format.Envelope{Reason: op.CauseAttempts, Topic: 1, Sequence: seq, Attempts: 5, Time: 1700000000999, Group: 4, GroupName: []byte("billing")}
				r.Kind, r.Envelope = format.RecordDeadLetter, e.Append(nil)
			}
			s.Append(p.Topic, p.Partition, &r)
		}
	}
	s.Flush(1)
	wait(segment.EventFlushed)
	files := tree{}
	for _, path := range d.Files() {
		files[path] = d.ReadFile(path)
	}
	return files, slices.Collect(s.Positions)
}

// journalBytes is the size of the journal files of the fixture.
const journalBytes = 16 * format.JournalBlock

var fixture = Options{JournalFileBytes: journalBytes}

// journalOf builds a journal of two files: entries 1 to 3 and 4 to 5, each in a
// write of its own, and a last mark.
func journalOf(files tree) (hashes []op.Hash, at []int64) {
	hashes = []op.Hash{{}}
	number := op.Number(1)
	write := func(path string, file uint64) {
		var b op.Builder
		b.Add(&op.Op{Kind: op.KindPublish, Topic: 1, ProducerID: 7, ProducerSeq: uint64(number), Timestamp: 1700000000001, Value: []byte("hello")})
		b.Add(&op.Op{Kind: op.KindAck, Group: 3, Sequence: 5, Delivery: 9, Ownership: 2})
		_, hash := b.Seal(op.Header{Number: number, Epoch: 1, PrevHash: hashes[number-1], Commit: number - 1, LogTime: op.LogMillis(number)})
		seed := format.JournalSeed(testCluster, file)
		for _, s := range b.Spans() {
			format.PutFrame(b.Bytes()[s.Start:s.End], seed)
		}
		w := format.JournalWrite{File: file, Mark: number - 1, First: number, Bytes: uint32(b.Len()), Entries: 1}
		w.Put(b.Bytes(), seed)
		at = append(at, int64(len(files[path])))
		files[path] = append(files[path], b.Padded()...)
		hashes = append(hashes, hash)
		number++
	}
	for _, f := range []struct {
		file  uint64
		count int
	}{{2, 3}, {3, 2}} {
		path := format.JournalName(f.file)
		h := format.JournalHeader{File: f.file, ClusterID: testCluster, First: number, PrevHash: hashes[number-1]}
		files[path] = make([]byte, format.JournalBlock)
		h.Put(files[path])
		for range f.count {
			write(path, f.file)
		}
	}
	path := format.JournalName(3)
	mark := make([]byte, format.JournalBlock)
	w := format.JournalWrite{File: 3, Mark: 5, Bytes: op.WritePrefix}
	w.Put(mark, format.JournalSeed(testCluster, 3))
	at = append(at, int64(len(files[path])))
	files[path] = append(files[path], mark...)
	for _, file := range []uint64{2, 3} {
		path := format.JournalName(file)
		files[path] = append(files[path], make([]byte, journalBytes-len(files[path]))...)
	}
	return hashes, at
}

// metadataOf builds a snapshot of three records and a log of two files with
// records 3 to 7, of which the last one is behind the checkpoint.
func metadataOf(files tree) {
	data := bytes.Repeat([]byte("state "), 40)
	snapshot := make([]byte, format.MetadataHeaderSize)
	h := format.SnapshotHeader{ClusterID: testCluster, Offset: 3, Epoch: 1, CRC: crc32.Checksum(data, op.Castagnoli), Length: uint64(len(data))}
	h.Put(snapshot)
	files[format.SnapshotName(3, 1)] = append(snapshot, data...)
	for _, f := range [][2]uint64{{3, 5}, {5, 8}} {
		header := make([]byte, format.MetadataHeaderSize)
		h := format.MetadataHeader{ClusterID: testCluster, Offset: f[0]}
		h.Put(header)
		for n := f[0]; n < f[1]; n++ {
			o := op.Op{Kind: op.KindTopicCreate, Topic: op.TopicID(2*n + 1), Partitions: 4, Name: []byte("topic")}
			r := format.MetadataRecord{Offset: n, Number: op.Number(n), Epoch: 1, LogTime: 5, Op: o.Append(nil)}
			header = r.Append(header)
		}
		files[format.MetadataName(f[0])] = header
	}
}

// checkpointsOf builds both files of the checkpoint at entry 2.
func checkpointsOf(files tree, hash op.Hash, positions []segment.Position) {
	h := format.CheckpointHeader{ClusterID: testCluster, Number: 2, Epoch: 1, Hash: hash, LogTime: 2}
	var payload []byte
	for _, p := range positions {
		q := format.Position{Topic: p.Topic, Partition: p.Partition, Last: p.Last, Base: p.Base, Offset: p.Offset}
		payload = q.Append(payload)
	}
	for path, magic := range map[string]string{format.LogCheckpointName(2): format.LogCheckpointMagic, format.CursorCheckpointName(2): format.CursorCheckpointMagic} {
		b := make([]byte, format.CheckpointHeaderSize)
		h.Put(b, magic)
		blocks := []format.Block{{Kind: format.BlockPiece, Payload: []byte("windows")}, {Kind: format.BlockPositions, Payload: payload}, {Kind: format.BlockEnd}}
		if magic == format.CursorCheckpointMagic {
			blocks[1] = format.Block{Kind: format.BlockPiece, Payload: []byte("ledger")}
		}
		for i := range blocks {
			blocks[i].Number = uint32(i)
			b = blocks[i].Append(b, h.Seed())
		}
		files[path] = b
	}
}

func putSuperblock(files tree, s format.Superblock) {
	b := make([]byte, format.SuperblockSize)
	s.Put(b[:format.SuperblockSlotSize], 0)
	s.Put(b[format.SuperblockSlotSize:], 1)
	files["superblock.mmsb"] = b
}

// directory is a data directory in which nothing is wrong.
func directory(t *testing.T) (tree, format.Superblock, []segment.Position, []int64) {
	t.Helper()
	files, positions := segmentsOf(t, 100)
	hashes, at := journalOf(files)
	metadataOf(files)
	checkpointsOf(files, hashes[2], positions)
	super := format.Superblock{
		NodeID: 1, Version: 9, ClusterID: testCluster, Promised: 1, Installed: 1, CheckpointOp: 2, CheckpointEpoch: 1, CheckpointHash: hashes[2], CheckpointTime: 2,
		MetadataRecords: 7, SnapshotRecords: 3, SnapshotEpoch: 1, JournalFirst: 2, JournalCurrent: 3,
	}
	putSuperblock(files, super)
	return files, super, positions, at
}
