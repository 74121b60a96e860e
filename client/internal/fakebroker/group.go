package fakebroker

import "github.com/mortarmq/mortarmq/wire"

// Group is one consumer group.
type Group struct{}

type member struct{}

func (g *Group) tick()                             {}
func (m *member) leave(bool)                       {}
func (b *Broker) serveAll()                        {}
func (s *Session) servePulls(bool)                 {}
func (s *Session) handleMember(f wire.Frame) error { s.ok(f.Op); return nil }
