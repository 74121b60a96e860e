package admin

import (
	"net/http"
	"strconv"
	"time"

	"github.com/mortarmq/mortarmq/node"
)

// Group is an item of /v1/groups; the body of /v1/groups/{name} is one with
// Items.
type Group struct {
	Group           string           `json:"group"`
	Topic           string           `json:"topic"`
	Lag             uint64           `json:"lag"`
	State           string           `json:"state"`
	Members         int              `json:"members"`
	MembershipEpoch uint32           `json:"membership_epoch"`
	AssignmentEpoch uint32           `json:"assignment_epoch"`
	Items           []GroupPartition `json:"items,omitempty"`
}

// GroupPartition is one partition of a group; Member is 0 where nobody owns it.
type GroupPartition struct {
	Partition       uint16 `json:"partition"`
	Member          uint64 `json:"member"`
	AssignmentEpoch uint32 `json:"assignment_epoch"`
	OwnershipEpoch  uint64 `json:"ownership_epoch"`
	Lag             uint64 `json:"lag"`
	Floor           uint64 `json:"floor"`
	LastSeq         uint64 `json:"last_seq"`
}

// GroupReset is the body of a reset's answer: per partition the sequence that is
// delivered next.
type GroupReset struct {
	Group string         `json:"group"`
	Items []PartitionSeq `json:"items"`
}

// PartitionSeq is a place in a partition.
type PartitionSeq struct {
	Partition uint16 `json:"partition"`
	Sequence  uint64 `json:"sequence"`
}

// Result is the body of a change that has nothing else to tell.
type Result struct {
	Result string `json:"result"`
}

// Leader is the body of /v1/leader; LeaderID is 0 where nobody is known.
type Leader struct {
	LeaderID    uint16 `json:"leader_id"`
	LeaderEpoch uint32 `json:"leader_epoch"`
	QuorumState string `json:"quorum_state"`
}

func groupBody(g *node.GroupInfo) Group {
	b := Group{
		Group: g.Name, Topic: g.Topic, Lag: g.Lag, State: g.State, Members: g.Members,
		MembershipEpoch: g.MembershipEpoch, AssignmentEpoch: g.AssignmentEpoch,
	}
	for _, p := range g.Partitions {
		b.Items = append(b.Items, GroupPartition{
			Partition: p.Partition, Member: p.Member, AssignmentEpoch: g.AssignmentEpoch, OwnershipEpoch: p.OwnershipEpoch,
			Lag: p.Cursor.Unsettled, Floor: uint64(p.Cursor.Floor), LastSeq: uint64(p.Cursor.LastSeq),
		})
	}
	return b
}

// groups takes topic: only the groups that read it.
func (s *handler) groups(w http.ResponseWriter, r *http.Request) {
	a, ok := s.ask(w, r, node.Query{Kind: node.QueryGroups, Topic: r.URL.Query().Get("topic")})
	if !ok {
		return
	}
	list := List[Group]{Items: []Group{}}
	for i := range a.Groups {
		list.Items = append(list.Items, groupBody(&a.Groups[i]))
	}
	reply(w, http.StatusOK, list)
}

func (s *handler) group(w http.ResponseWriter, r *http.Request) {
	if a, ok := s.ask(w, r, node.Query{Kind: node.QueryGroup, Group: name(r)}); ok {
		reply(w, http.StatusOK, groupBody(&a.Groups[0]))
	}
}

// groupReset takes to: earliest, latest, a sequence, or a time in RFC 3339.
func (s *handler) groupReset(w http.ResponseWriter, r *http.Request) {
	to, f := resetTo(r.URL.Query().Get("to"))
	if f != nil {
		f.reply(w)
		return
	}
	a, f := s.query(r.Context(), node.Query{Kind: node.QueryGroupReset, Group: name(r), Reset: to}, changeTimeout)
	if f != nil {
		f.reply(w)
		return
	}
	body := GroupReset{Group: name(r), Items: []PartitionSeq{}}
	for p, seq := range a.Sequences {
		body.Items = append(body.Items, PartitionSeq{uint16(p), seq})
	}
	reply(w, http.StatusOK, body)
}

func resetTo(to string) (node.ResetTo, *failure) {
	switch to {
	case "earliest":
		return node.ResetTo{To: node.ResetToEarliest}, nil
	case "latest":
		return node.ResetTo{To: node.ResetToLatest}, nil
	}
	if seq, err := strconv.ParseUint(to, 10, 64); err == nil && seq > 0 {
		return node.ResetTo{To: node.ResetToSequence, Value: seq}, nil
	}
	t, err := time.Parse(time.RFC3339, to)
	if err != nil {
		return node.ResetTo{}, bad("to is earliest, latest, a sequence from 1, or a time such as 2026-01-31T12:00:00Z, not %q", to)
	}
	// A message of this very millisecond is not older, one of the one before is.
	ms := t.UnixMilli()
	if t.Nanosecond()%1e6 != 0 {
		ms++
	}
	return node.ResetTo{To: node.ResetToTime, Value: uint64(max(ms, 0))}, nil
}

func (s *handler) groupDelete(w http.ResponseWriter, r *http.Request) {
	_, f := s.query(r.Context(), node.Query{Kind: node.QueryGroupDelete, Group: name(r)}, changeTimeout)
	if f != nil {
		f.reply(w)
		return
	}
	reply(w, http.StatusOK, Result{"deleted"})
}

func (s *handler) leader(w http.ResponseWriter, r *http.Request) {
	if a, ok := s.ask(w, r, node.Query{Kind: node.QueryBroker}); ok {
		reply(w, http.StatusOK, Leader{a.Broker.LeaderID, a.Broker.LeaderEpoch, a.Broker.Quorum.String()})
	}
}
