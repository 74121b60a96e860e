package store

import (
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/node/op"
	"github.com/mortarmq/mortarmq/node/store/journal"
)

// CanAppend says whether Append may be called: recovered, not failed, no write
// under way, and none that is not told yet.
func (s *Store) CanAppend() bool {
	return s.state == stateRunning && s.journal.CanAppend() && !s.super.holding()
}

// Append writes the sealed builder's entries to the journal and syncs them. The
// first of them follows the last entry that was appended, or what Truncate
// left. b is borrowed until Flushed reports its last entry.
func (s *Store) Append(b *op.Builder) {
	s.journal.Append(b)
	s.pumpJournal()
	if k := &s.checkpointer; k.since == clock.Never {
		k.since = s.now
	}
}

// Truncate drops the journal's entries above number, whose hash is hash, and
// makes that durable: EventTruncated. CanAppend must hold.
func (s *Store) Truncate(number op.Number, hash op.Hash) {
	if number < s.super.durable.CheckpointOp || s.Checkpointing() && number < s.checkpointer.header.Number {
		panic("store: Truncate below a checkpoint")
	}
	if !s.CanAppend() {
		panic("store: Truncate while a write is under way")
	}
	s.super.told = min(s.super.told, number)
	s.journal.Truncate(number, hash)
	s.pumpJournal()
}

// ReadJournal reads flushed entries from number on, about max bytes but at
// least one entry: EventJournalRead. One at a time.
func (s *Store) ReadJournal(number op.Number, max int) { s.journal.Read(number, max); s.pumpJournal() }

// ReadingJournal says whether a ReadJournal is under way.
func (s *Store) ReadingJournal() bool { return s.journal.Reading() }

// Last gives the last entry's number and hash.
func (s *Store) Last() (op.Number, op.Hash) { return s.journal.Last() }

// Flushed gives the last entry known to be synced.
func (s *Store) Flushed() op.Number {
	if s.super.holding() {
		return s.super.told
	}
	return s.journal.Flushed()
}

// JournalFull says that the journal holds more than JournalCapBytes since the
// checkpoint: changes that clients ask for must wait.
func (s *Store) JournalFull() bool { return s.journal.Bytes() > s.options.JournalCapBytes }

// pumpJournal takes over the journal's events, but for the entries that
// recovery streams: those are pulled by Next.
func (s *Store) pumpJournal() {
	if s.state == stateRecovering && s.recoverer.stage == recoverStream {
		return
	}
	var je journal.Event
	for s.journal.Next(&je) {
		s.journalEvent(&je)
		if s.state == stateRecovering && s.recoverer.stage == recoverStream {
			return
		}
	}
}

// journalEvent passes an event of the journal on.
func (s *Store) journalEvent(je *journal.Event) {
	if s.state == stateEnded {
		return
	}
	switch je.Kind {
	case journal.EventChecked:
		s.recoverChecked(je)
	case journal.EventRewritten:
		if s.state == stateForming {
			s.formSuperblock()
		} else {
			s.recoverRewritten()
		}
	case journal.EventStreamed:
		s.recoverStreamed()
	case journal.EventTornTail:
		s.emit(Event{Kind: EventTornTail, Path: je.Path, Offset: je.Offset, Number: je.Number, What: je.What})
	case journal.EventDamage:
		s.damage(Event{Path: je.Path, Offset: je.Offset, Sequence: uint64(je.Number), What: je.What, Fatal: true})
	case journal.EventRefused:
		s.refuse(je.Path, je.Version, je.What)
	case journal.EventFlushed:
		s.superHold(Event{Kind: EventFlushed, Number: je.Number})
	case journal.EventTruncated:
		s.superHold(Event{Kind: EventTruncated, Number: je.Number})
	case journal.EventStalled:
		s.emit(Event{Kind: EventJournalStalled, Err: je.Err, Path: je.Path})
	case journal.EventFailed:
		s.fail(je.Err, je.Path)
	case journal.EventRead:
		s.emit(Event{Kind: EventJournalRead, Number: je.Number, Data: je.Data, Err: je.Err, What: je.What})
	case journal.EventRetired:
		s.retired()
	}
}
