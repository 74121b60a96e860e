package sim

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/mortarmq/mortarmq/checker"
)

func TestDebug(t *testing.T) {
	s := os.Getenv("SEED")
	if s == "" {
		t.Skip()
	}
	seed, _ := strconv.ParseUint(s, 10, 64)
	p := Draw(seed)
	w := newWorld(p, Options{})
	w.runUntil(1<<62, func() bool { return w.calm })
	w.finish()
	for _, f := range w.judge.findings {
		fmt.Println(f)
	}
	group, topic, part := os.Getenv("G"), os.Getenv("T"), os.Getenv("P")
	tt, _ := strconv.Atoi(topic)
	pp, _ := strconv.Atoi(part)
	at := checker.Partition{Topic: uint16(tt), Partition: uint16(pp)}
	acked := map[uint64]bool{}
	for _, x := range w.rec.h.Settles {
		if x.Group == group && x.Partition == at && x.Kind == checker.Ack && x.Outcome == checker.OK {
			acked[x.Sequence] = true
		}
	}
	only, _ := strconv.ParseUint(os.Getenv("S"), 10, 64)
	for _, x := range w.rec.h.Settles {
		if x.Group == group && x.Partition == at && (only == 0 && !acked[x.Sequence] || only == x.Sequence) {
			fmt.Printf("settle %+v\n", x)
		}
	}
	for _, x := range w.rec.h.Deliveries {
		if x.Group == group && x.Partition == at && (only == 0 && !acked[x.Sequence] || only == x.Sequence) {
			fmt.Printf("delivery %+v\n", x)
		}
	}
}
