package checker

import (
	"testing"

	"github.com/mortarmq/mortarmq/wire"
)

func msg(sequence, delivery, ownership, member uint64, at Time) Delivery {
	return Delivery{Group: "g", Member: member, Partition: part, Sequence: sequence, DeliveryID: delivery, Ownership: ownership, Attempt: 1, Payload: sequence, At: at}
}

func ack(sequence, delivery, ownership uint64, call, ret Time) Settle {
	return Settle{Group: "g", Partition: part, Sequence: sequence, DeliveryID: delivery, Ownership: ownership, Call: call, Return: ret, Outcome: OK}
}

// sound is a small history that holds, drained: the tests break one thing each.
func sound() *History {
	return &History{
		Publishes:  []Publish{published(1, 1, 10, 20), published(2, 2, 15, 30), published(3, 3, 31, 40)},
		Deliveries: []Delivery{msg(1, 101, 1, 5, 50), msg(2, 102, 1, 5, 51), msg(3, 103, 1, 5, 52)},
		Settles:    []Settle{ack(1, 101, 1, 60, 70), ack(2, 102, 1, 61, 71), ack(3, 103, 1, 62, 72)},
		Logs:       []Log{logOf(1, 2, 3), {Partition: Partition{Topic: 2}, Twin: true}},
		Books: []Book{
			{At: 45, Group: "g", Partition: part, LastSeq: 3, NextFirst: 1, Unsettled: 3, Ownership: 1},
			{At: 99, Group: "g", Partition: part, LastSeq: 3, Floor: 3, NextFirst: 4, Delivered: 3, Ownership: 1},
		},
		Drained: true,
	}
}

// Goal: a sound history holds, and each bug that is planted in it is found, by
// the property that is there for it.
func TestPlanted(t *testing.T) {
	expect(t, sound())
	for _, c := range []struct {
		name  string
		plant func(*History)
		want  []string
	}{
		{"lost write", func(h *History) {
			p := published(4, 4, 41, 42)
			h.Publishes = append(h.Publishes, p)
		}, []string{PropertyLost}},
		{"duplicate payload", func(h *History) {
			h.Logs[0] = logOf(1, 2, 3, 3)
			h.Drained = false
		}, []string{PropertyDuplicate}},
		{"duplicate producer sequence", func(h *History) {
			h.Logs[0].Records[2].ProducerSeq = 2
		}, []string{PropertyDuplicate}},
		{"inconsistent offset", func(h *History) { h.Deliveries[1].Payload = 1 }, []string{PropertyInconsistent}},
		{"aborted read", func(h *History) {
			h.Publishes[2].Outcome, h.Publishes[2].Code = Refused, wire.CodeBackpressure
		}, []string{PropertyAborted}},
		{"read of nothing", func(h *History) { h.Publishes = h.Publishes[:2] }, []string{PropertyAborted}},
		{"non-monotonic poll", func(h *History) {
			h.Deliveries[0], h.Deliveries[1] = msg(2, 101, 1, 5, 50), msg(1, 102, 1, 5, 51)
			h.Settles = nil
			h.Deliveries[2].Attempt = 2
			h.Drained = false
		}, []string{PropertyNonMonotonic}},
		{"skipping poll", func(h *History) {
			h.Deliveries = h.Deliveries[:1]
			h.Deliveries = append(h.Deliveries, msg(3, 103, 1, 5, 52))
			h.Drained = false
		}, []string{PropertySkipping}},
		{"unseen", func(h *History) {
			h.Deliveries = h.Deliveries[:2]
			h.Settles[2].Outcome = Unknown
		}, []string{PropertyUnseen}},
		{"unsettled in the end", func(h *History) {
			h.Settles = h.Settles[:2]
			h.Books[1].Delivered, h.Books[1].Unsettled, h.Books[1].Floor = 2, 1, 2
		}, []string{PropertyAtLeastOnce}},
		{"counted without an ACK", func(h *History) {
			h.Settles[2].Outcome, h.Settles[2].Code = Refused, wire.CodeUnknownDelivery
		}, []string{PropertyAtLeastOnce}},
		{"settled twice", func(h *History) {
			h.Settles = append(h.Settles, ack(2, 104, 1, 80, 81))
		}, []string{PropertySettledStays}},
		{"delivered after its ACK", func(h *History) {
			d := msg(2, 104, 1, 5, 80)
			d.Attempt = 2
			h.Deliveries = append(h.Deliveries, d)
		}, []string{PropertySettledStays}},
		{"delivered while it was given back and acknowledged", func(h *History) {
			d := msg(2, 104, 1, 5, 70)
			d.Attempt = 2
			h.Deliveries = append(h.Deliveries, d)
			release := ack(2, 102, 1, 60, 70)
			release.Kind = Release
			h.Settles = append(h.Settles, release)
		}, nil},
		{"dead letter twice", func(h *History) {
			r := Record{Payload: 3, DeadLetter: true, Source: Source{part, 3, "g"}}
			h.Logs[1].Records = []Record{r, r}
			h.Settles = h.Settles[:2]
			h.Books[1].Delivered, h.Books[1].Dropped, h.Books[1].DLQ = 2, 1, 1
		}, []string{PropertyDeadLetter}},
		{"dead letter of an acknowledged message", func(h *History) {
			h.Logs[1].Records = []Record{{Payload: 3, DeadLetter: true, Source: Source{part, 3, "g"}}}
		}, []string{PropertyDeadLetter}},
		{"a release that cost an attempt", func(h *History) {
			h.MaxAttempts = 2
			h.Logs[1].Records = []Record{{Payload: 3, DeadLetter: true, Source: Source{part, 3, "g"}, Attempts: 2}}
			h.Settles[2].Kind = Release
			h.Books[1].Delivered, h.Books[1].Dropped, h.Books[1].DLQ = 2, 1, 1
		}, []string{PropertyCharges}},
		{"accounting", func(h *History) { h.Books[0].Unsettled = 2 }, []string{PropertyBooks}},
		{"ack floor ahead", func(h *History) { h.Books[0].Floor = 1 }, []string{PropertyBooks}},
		{"books fall", func(h *History) {
			b := h.Books[1]
			b.At, b.Delivered, b.Unsettled, b.Floor, b.NextFirst = 90, 2, 1, 2, 3
			h.Books = []Book{h.Books[0], h.Books[1], b, h.Books[1]}
			h.Books[1].At = 80
		}, []string{PropertyBooksFall}},
		{"stale owner settles", func(h *History) {
			d := msg(1, 104, 2, 6, 55)
			d.Attempt = 2
			h.Deliveries = append(h.Deliveries, d)
			h.Settles[0].DeliveryID = 104
		}, []string{PropertyOwnership}},
		{"delivery id given twice", func(h *History) { h.Deliveries[1].DeliveryID = 101 }, []string{PropertyDeliveryIDs}},
		{"two owners in one epoch", func(h *History) { h.Deliveries[2].Member = 6 }, []string{PropertyOwnership}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := sound()
			c.plant(h)
			expect(t, h, c.want...)
		})
	}
}
