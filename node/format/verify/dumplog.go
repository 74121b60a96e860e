package verify

import (
	"fmt"
	"strconv"

	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/op"
)

// journal prints the writes of a journal file. Where no write of this lap
// begins, the next one is looked for, block by block.
func (d *dumper) journal() {
	h, err := format.DecodeJournalHeader(d.w.need(0, format.JournalBlock))
	if err != nil {
		d.stop(0, err)
		return
	}
	d.line("0: journal file=%d first=%d previous_hash=%x cluster=%x", h.File, h.First, h.PrevHash, h.ClusterID)
	seed := format.JournalSeed(h.ClusterID, h.File)
	skipped := int64(-1)
	for at := int64(format.JournalBlock); at < d.w.f.Size() && d.err == nil; {
		write, err := format.DecodeJournalWrite(d.w.need(at, op.WritePrefix), seed)
		if err != nil {
			if skipped < 0 {
				skipped = at
			}
			at += format.JournalBlock
			continue
		}
		d.skipped(skipped, at)
		skipped = -1
		d.line("%d: write mark=%d first=%d entries=%d bytes=%d", at, write.Mark, write.First, write.Entries, write.Bytes)
		d.entries(at+op.WritePrefix, &write, seed)
		at = (at + int64(write.Bytes) + format.JournalBlock - 1) &^ (format.JournalBlock - 1)
	}
	d.skipped(skipped, d.w.f.Size())
}

func (d *dumper) skipped(from, to int64) {
	if from >= 0 {
		d.line("%d: %d bytes without a write of this file", from, to-from)
	}
}

func (d *dumper) entries(at int64, w *format.JournalWrite, seed uint32) {
	for range w.Entries {
		h, size, err := format.DecodeFrame(d.w.need(at, format.FrameOverhead), seed)
		if err != nil {
			d.stop(at, err)
			return
		}
		b := d.w.need(at, size)
		if len(b) < size || !h.CheckBody(b[format.FrameOverhead:]) {
			d.stop(at, format.ErrJournal)
			return
		}
		d.line("%d:  entry number=%d epoch=%d ops=%d commit=%d log_time=%d previous_hash=%x", at, h.Number, h.Epoch, h.Ops, h.Commit, h.LogTime, h.PrevHash)
		e := op.Entry{Header: h, Raw: b[op.FramePrefix:format.FrameOverhead], Body: b[format.FrameOverhead:]}
		var o op.Op
		if err := e.Each(&o, func(int) error { d.line("    %s", d.op(&o)); return nil }); err != nil {
			d.stop(at, err)
		}
		at += int64(size)
	}
}

func (d *dumper) metadata() {
	h, err := format.DecodeMetadataHeader(d.w.need(0, format.MetadataHeaderSize))
	if err != nil {
		d.stop(0, err)
		return
	}
	d.line("0: metadata offset=%d cluster=%x", h.Offset, h.ClusterID)
	for at := int64(format.MetadataHeaderSize); at < d.w.f.Size() && d.err == nil; {
		size, err := format.MetadataRecordSize(d.w.need(at, 4))
		var r format.MetadataRecord
		if err == nil {
			r, _, err = format.DecodeMetadataRecord(d.w.need(at, size))
		}
		var o op.Op
		if err == nil {
			_, err = o.Decode(r.Op)
		}
		if err != nil {
			d.stop(at, err)
			return
		}
		d.line("%d: record=%d entry=%d epoch=%d log_time=%d %s", at, r.Offset, r.Number, r.Epoch, r.LogTime, d.op(&o))
		at += int64(size)
	}
}

// op prints an op: its kind, and the fields that are not zero.
func (d *dumper) op(o *op.Op) string {
	s := o.Kind.String()
	for _, f := range [...]struct {
		name  string
		value uint64
	}{
		{"flags", uint64(o.Flags)}, {"topic", uint64(o.Topic)}, {"partitions", uint64(o.Partitions)}, {"group", uint64(o.Group)},
		{"member", uint64(o.Member)}, {"sequence", uint64(o.Sequence)}, {"count", uint64(o.Count)}, {"delivery", uint64(o.Delivery)},
		{"ownership", uint64(o.Ownership)}, {"delay_ms", uint64(o.DelayMillis)}, {"reason", uint64(o.Reason)}, {"start", uint64(o.StartPolicy)},
		{"producer", o.ProducerID}, {"producer_seq", o.ProducerSeq}, {"time", o.Timestamp},
	} {
		if f.value != 0 {
			s += " " + f.name + "=" + strconv.FormatUint(f.value, 10)
		}
	}
	switch o.Kind {
	case op.KindEpochStart:
		c := &o.Settings
		return s + fmt.Sprintf(" delivery_max_attempts=%d retry_backoff_base_ms=%d retry_backoff_max_ms=%d partition_default_count=%d max_topics=%d producer_window_bytes=%d",
			c.DeliveryMaxAttempts, c.RetryBackoffBaseMs, c.RetryBackoffMaxMs, c.PartitionDefaultCount, c.MaxTopics, c.ProducerWindowBytes)
	case op.KindLeave, op.KindRevoked:
		s += " partition=" + strconv.Itoa(int(o.Partition)) + " cause=" + causeText(o.Cause)
	case op.KindDeadLetter, op.KindRedrive:
		s += " partition=" + strconv.Itoa(int(o.Partition)) + " cause=" + causeText(o.Cause)
		if len(o.Envelope) > 0 {
			s += " " + d.envelope(o.Envelope)
		}
	case op.KindPublish, op.KindDeliver, op.KindAck, op.KindNack, op.KindExpire, op.KindForgetProducer, op.KindGroupReset, op.KindPurge:
		s += " partition=" + strconv.Itoa(int(o.Partition))
	}
	if len(o.Name) > 0 {
		s += " name=" + d.text(o.Name)
	}
	if len(o.Key) > 0 {
		s += " key=" + d.text(o.Key)
	}
	if o.Kind == op.KindPublish || o.Kind == op.KindDeadLetter || o.Kind == op.KindRedrive {
		s += " value=" + d.text(o.Value)
	}
	return s
}

// causeText names a cause of node/op.
func causeText(c uint8) string {
	names := [...]string{"leave", "vanished", "stop", "confirmed", "timeout", "attempts", "reject"}
	if int(c) < len(names) {
		return names[c]
	}
	return strconv.Itoa(int(c))
}
