package admin

import (
	"net/http"
	"strconv"

	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/node"
)

// Explanation is an item of /v1/explain: one group and one partition. Holds is
// the one thing that holds it up, Why says so in words; Sequence is the lowest
// unsettled message.
type Explanation struct {
	Group          string `json:"group"`
	Topic          string `json:"topic"`
	Partition      uint16 `json:"partition"`
	Holds          string `json:"holds"`
	Why            string `json:"why"`
	Sequence       uint64 `json:"sequence"`
	Floor          uint64 `json:"floor"`
	LastSeq        uint64 `json:"last_seq"`
	Lag            uint64 `json:"lag"`
	State          string `json:"state"`
	Owner          uint64 `json:"owner"`
	OwnershipEpoch uint64 `json:"ownership_epoch"`
	LastHeardMs    int64  `json:"last_heard_ms"`
	Pulling        bool   `json:"pulling"`
	Leases         uint32 `json:"leases"`
	LeaseEndsMs    int64  `json:"lease_ends_ms"`
	Waiting        int    `json:"waiting"`
	NextDue        string `json:"next_due"`
	Dead           uint32 `json:"dead"`
	CreditCount    uint32 `json:"credit_count"`
	CreditBytes    uint64 `json:"credit_bytes"`
	WindowCount    uint32 `json:"window_count"`
	WindowBytes    uint64 `json:"window_bytes"`
	// Damage says where the partition is damaged, empty if it is whole.
	Damage string `json:"damage"`
}

func explanationBody(x *node.Explanation) Explanation {
	s := &x.Session
	b := Explanation{
		Group: x.Group, Topic: x.Topic, Partition: x.Partition, Holds: string(x.Holds), Why: x.Why, Sequence: x.Sequence,
		Floor: uint64(x.Cursor.Floor), LastSeq: x.LastSeq, Lag: x.Cursor.Unsettled, State: x.State,
		Owner: uint64(x.Owner.Member), OwnershipEpoch: uint64(x.Owner.Epoch), LastHeardMs: s.LastHeard.Millis(), Pulling: s.Pulling,
		Leases: s.Out, LeaseEndsMs: (s.LeaseEnds + clock.Millisecond - 1).Millis(), Waiting: s.Waiting, Dead: x.Cursor.Dead,
		CreditCount: s.LeftCount, CreditBytes: s.LeftBytes, WindowCount: s.WindowCount, WindowBytes: s.WindowBytes,
	}
	if x.Damage != nil {
		b.Damage = Damage(*x.Damage).String()
	}
	if x.NextDue != 0 {
		b.NextDue = timeOf(uint64(x.NextDue))
	}
	return b
}

// explain takes topic, partition and group; without group it tells of all groups
// of the topic.
func (s *handler) explain(w http.ResponseWriter, r *http.Request) {
	v := r.URL.Query()
	part, err := strconv.ParseUint(v.Get("partition"), 10, 16)
	if err != nil || v.Get("topic") == "" {
		bad("topic and partition, a number, are needed").reply(w)
		return
	}
	a, ok := s.ask(w, r, node.Query{Kind: node.QueryExplain, Topic: v.Get("topic"), Partition: uint16(part), Group: v.Get("group")})
	if !ok {
		return
	}
	list := List[Explanation]{Items: []Explanation{}}
	for i := range a.Explained {
		list.Items = append(list.Items, explanationBody(&a.Explained[i]))
	}
	reply(w, http.StatusOK, list)
}
