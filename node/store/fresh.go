package store

import (
	"errors"
	"strings"

	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/node/format"
	"github.com/mortarmq/mortarmq/node/store/flight"
)

// prober tells a directory without a superblock that is fresh from one that has
// lost it: nothing but what a Form leaves that was cut off may be there.
type prober struct {
	flight flight.Flight
	dirs   []string // to be listed
	at     int
	file   bool // journal file 1 is looked at
	opened bool
	buf    []byte
}

// probe begins.
func (s *Store) probe() {
	s.prober.dirs = append(s.prober.dirs[:0], "")
	s.prober.at = 0
	s.probeNext()
}

func (s *Store) probeNext() {
	p := &s.prober
	switch {
	case p.at < len(p.dirs):
		p.flight.Submit(&s.queue, disk.Request{Kind: disk.KindList, Lane: disk.LaneRead, Path: p.dirs[p.at]})
	case p.file && !p.opened:
		p.opened = true
		p.buf = make([]byte, format.JournalBlock)
		p.flight.Submit(&s.queue, disk.Request{Kind: disk.KindOpen, Lane: disk.LaneBackground, Flags: disk.FlagReadOnly, Handle: handleProbe, Path: format.JournalName(1)})
		p.flight.Submit(&s.queue, disk.Request{Kind: disk.KindRead, Lane: disk.LaneBackground, Handle: handleProbe, Buf: p.buf})
		p.flight.Submit(&s.queue, disk.Request{Kind: disk.KindClose, Lane: disk.LaneBackground, Handle: handleProbe})
	default:
		s.state = stateFresh
		s.emit(Event{Kind: EventFresh})
	}
}

// probeLanded takes in a listing, or the first block of the first journal file.
func (s *Store) probeLanded() {
	p := &s.prober
	if s.state == stateEnded {
		return
	}
	if p.flight.Err != disk.OK {
		s.fail(p.flight.Err, "the data directory")
		return
	}
	if p.opened {
		_, err := format.DecodeJournalHeader(p.buf)
		var newer *format.VersionError
		switch {
		case err == nil:
			s.lost(format.JournalName(1))
		case errors.As(err, &newer):
			s.refuse(format.JournalName(1), newer.Version, "a format version that this binary does not know")
		default:
			s.probeNext()
		}
		return
	}
	dir := p.dirs[p.at]
	for _, e := range p.flight.Entries {
		path := e.Name
		if dir != "" {
			path = dir + "/" + e.Name
		}
		switch {
		case dir == "" && !isOurs(e.Name):
		case e.Dir && isDataDir(path):
			p.dirs = append(p.dirs, path)
		case path == format.JournalName(1):
			p.file = true
		default:
			s.lost(path)
			return
		}
	}
	p.at++
	s.probeNext()
}

func isDataDir(path string) bool {
	for _, dir := range dataDirs {
		if dir == path {
			return true
		}
	}
	return false
}

// isOurs says whether a name at the root is one that a node's directory has.
func isOurs(name string) bool {
	for _, dir := range dataDirs {
		if top, _, _ := strings.Cut(dir, "/"); top == name {
			return true
		}
	}
	return false
}

// lost ends the start: path is a node's, but there is no superblock.
func (s *Store) lost(path string) {
	s.damage(Event{Path: superblockPath, What: "the file is missing, though " + path + " is there", Fatal: true})
}
