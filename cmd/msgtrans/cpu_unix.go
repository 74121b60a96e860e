//go:build unix

package main

import (
	"syscall"
	"time"
)

// cpuTime returns the processor time that this process has taken, which other
// processes on the machine change less than the time on the clock.
func cpuTime() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
