//go:build !unix

package main

import "time"

// cpuTime is not known here; the column stays at 0.
func cpuTime() time.Duration { return 0 }
