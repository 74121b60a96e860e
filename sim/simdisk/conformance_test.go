package simdisk

import (
	"testing"

	"github.com/mortarmq/mortarmq/disk/disktest"
)

// Goal: the simulated disk keeps the contract of package disk.
func TestConformance(t *testing.T) {
	disktest.Run(t, func(t *testing.T) disktest.Harness {
		d := New(Options{Seed: uint64(len(t.Name()))})
		return disktest.Harness{
			Disk:      d,
			Step:      func() { step(t, d) },
			PowerLoss: func() { d.Crash(PowerLoss); d.Restart() },
		}
	})
}

// step lets time pass until something is there to be polled.
func step(t testing.TB, d *Disk) {
	t.Helper()
	for !d.Pending() {
		next := d.NextDeadline()
		if d.Idle() {
			t.Fatal("waiting for a disk that has nothing to do")
		}
		d.Advance(next)
	}
}
