package simnet

import (
	"testing"

	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/net"
	"github.com/mortarmq/mortarmq/net/nettest"
)

// Goal: the simulated network keeps the contract of package net.
func TestConformance(t *testing.T) {
	nettest.Run(t, func(t *testing.T) nettest.Harness {
		w := New(Options{Seed: uint64(len(t.Name()))})
		s, c := w.Host("server"), w.Host("client")
		if _, err := s.Listen("server:7188", net.PlaneClient); err != nil {
			t.Fatal(err)
		}
		return nettest.Harness{Server: s, Client: c, Addr: "server:7188", Nowhere: "server:1", Step: func() { step(t, w) }}
	})
}

// step lets time pass until some host has something to poll.
func step(t testing.TB, w *World) {
	t.Helper()
	for !pending(w) {
		next := w.NextDeadline()
		if next == clock.Never {
			t.Fatal("waiting for a network that has nothing to do")
		}
		w.Advance(next)
	}
}

func pending(w *World) bool {
	for _, h := range w.hosts {
		if h.Pending() {
			return true
		}
	}
	return false
}
