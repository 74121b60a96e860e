package core

import (
	"fmt"
	"slices"

	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/wire"
)

// application is the other side of the consumers: what it has been handed and what it was told.
type application struct {
	w       *world
	have    []Delivery // handed and not answered, oldest first
	owned   map[Handle]map[uint16]uint64
	revoked []Event // waiting for ConfirmRevoke
	ended   map[Handle]Event
	live    []Handle
	handled map[string]int // acknowledged, by value
	order   []string       // values in order of delivery
	handOut int
}

func newApplication(w *world, handOut int) *application {
	a := &application{w: w, owned: map[Handle]map[uint16]uint64{}, ended: map[Handle]Event{}, handled: map[string]int{}, handOut: handOut}
	w.onDeliv, w.onEvent = a.delivered, a.told
	return a
}

func (a *application) consume(h Handle, opt ConsumerOptions) {
	a.live = append(a.live, h)
	a.owned[h] = map[uint16]uint64{}
	opt.HandOut = a.handOut
	a.w.turn(Input{Kind: InputConsumer, Handle: h, Topic: "orders", Group: "g", Consumer: &opt})
}

func (a *application) delivered(d Delivery) {
	n := 0
	for _, o := range a.have {
		if o.Partition != d.Partition {
			continue
		}
		if o.Consumer == d.Consumer {
			n++
		} else if o.OwnershipEpoch == d.OwnershipEpoch {
			a.w.t.Fatalf("partition %d is handled by two members in epoch %d", d.Partition, d.OwnershipEpoch)
		}
		if o.DeliveryID == d.DeliveryID {
			a.w.t.Fatalf("delivery %x is handed out twice", d.DeliveryID)
		}
	}
	if n >= a.handOut {
		a.w.t.Fatalf("C8: %d deliveries of partition %d are out", n+1, d.Partition)
	}
	if epoch, ok := a.owned[d.Consumer][d.Partition]; !ok || epoch != d.OwnershipEpoch {
		a.w.t.Fatalf("a delivery of partition %d in epoch %d, which is not owned", d.Partition, d.OwnershipEpoch)
	}
	a.have = append(a.have, d)
	a.order = append(a.order, string(d.Value))
}

func (a *application) told(e Event) {
	switch e.Kind {
	case EventAssigned:
		if _, ok := a.owned[e.Handle][e.Partition]; ok {
			a.w.t.Fatalf("partition %d is assigned twice", e.Partition)
		}
		a.owned[e.Handle][e.Partition] = e.Epoch
	case EventRevoking:
		if a.owned[e.Handle][e.Partition] != e.Epoch {
			a.w.t.Fatalf("partition %d is revoked and was not owned", e.Partition)
		}
	case EventRevoked:
		for _, d := range a.have {
			if d.Consumer == e.Handle && d.Partition == e.Partition {
				a.w.t.Fatalf("partition %d is revoked while a delivery is out", e.Partition)
			}
		}
		delete(a.owned[e.Handle], e.Partition)
		a.revoked = append(a.revoked, e)
	case EventLost:
		delete(a.owned[e.Handle], e.Partition)
	case EventConsumerFailed, EventStopped:
		a.ended[e.Handle] = e
		a.live = slices.DeleteFunc(a.live, func(h Handle) bool { return h == e.Handle })
	}
}

// settle answers the i-th delivery that is out.
func (a *application) settle(i int, how Settle, delay clock.Duration) {
	d := a.have[i]
	a.have = slices.Delete(a.have, i, i+1)
	if how == SettleAck {
		a.handled[string(d.Value)]++
	}
	a.w.turn(Input{Kind: InputSettle, Handle: d.Consumer, Partition: d.Partition, Delivery: d.DeliveryID, Settle: how, Delay: delay, HasDelay: delay > 0})
}

// work acknowledges everything and confirms every revoke; false when there was nothing to do.
func (a *application) work() bool {
	did := len(a.have)+len(a.revoked) > 0
	for len(a.revoked) > 0 {
		e := a.revoked[0]
		a.revoked = a.revoked[1:]
		a.w.turn(Input{Kind: InputConfirmRevoke, Handle: e.Handle, Partition: e.Partition, Ref: e.Epoch})
	}
	for len(a.have) > 0 {
		a.settle(0, SettleAck, 0)
	}
	return did
}

// until lets broker, core and application go on until done.
func (a *application) until(what string, done func() bool) {
	a.w.t.Helper()
	a.w.until(what, func() bool {
		a.work()
		return done()
	})
}

func (w *world) feed(topic string, partition, n int) {
	t, _ := w.broker.Declare(topic, 0)
	for range n {
		p := t.Partitions[partition]
		w.broker.Publish(&wire.Pub{TopicID: t.ID, Partition: uint16(partition), Value: fmt.Appendf(nil, "%d/%d", partition, len(p.Log)+1)})
	}
	w.broker.Tick()
}

// checkCredit is C9: at any time the balance, what flies, what is to go back and what is here make the window.
func (w *world) checkCredit() {
	w.t.Helper()
	for _, s := range w.core.consumers {
		if s.state != stateMember {
			continue
		}
		sum := s.credit.available()
		sum.add(s.credit.back)
		for i := range s.parts {
			p := &s.parts[i]
			for j := range p.queue.n {
				sum.add(amount{1, int64(len(p.queue.at(j).Value))})
			}
			for _, h := range p.handed {
				if h.joined == s.generation {
					sum.add(amount{1, int64(h.bytes)})
				}
			}
		}
		if sum != s.credit.size || s.credit.balance.count < 0 || s.credit.balance.bytes < 0 {
			w.t.Fatalf("C9: the credit adds up to %+v: %+v", sum, s.credit)
		}
	}
}
