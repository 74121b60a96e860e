package machine

import "github.com/mortarmq/mortarmq/node/op"

// assign gives each partition an owner among members. It writes them to owners,
// which holds one place per partition and on entry the assignment before (0 or
// somebody who is no member any more: nobody).
//
// members are distinct and in rising order. Without members nobody owns
// anything. Otherwise:
//
//  1. Each partition has one owner.
//  2. The numbers of partitions that two members own differ by at most one.
//  3. No assignment with 1 and 2 takes fewer partitions from members.
//  4. It is a function of its arguments: of several such assignments it takes
//     the one in which the larger shares go to those that already hold more than
//     the smaller share, then to lower ids; a member keeps its lowest partitions;
//     what is free goes, in rising order, to members in rising order.
//
// With n partitions and k members, let q = n/k and r = n%k. By 2, exactly r
// members own q+1 and the others q. A member that held c keeps at most
// min(c, share), and keeps that many below. The sum is greatest when those with
// c > q are among the r, as far as there are enough places. That is 3. It takes
// O(n k) steps.
func assign(members []op.MemberID, owners []op.MemberID) {
	k, n := len(members), len(owners)
	if k == 0 {
		clear(owners)
		return
	}
	var buf [2 * maxMembers]int
	held, share := buf[:k], buf[maxMembers:maxMembers+k]
	for _, o := range owners {
		if i := memberIndex(members, o); i >= 0 {
			held[i]++
		}
	}
	q, r := n/k, n%k
	for i := range share {
		share[i] = q
		if held[i] > q && r > 0 {
			share[i]++
			r--
		}
	}
	for i := range share {
		if share[i] == q && held[i] <= q && r > 0 {
			share[i]++
			r--
		}
	}
	for p, o := range owners {
		i := memberIndex(members, o)
		if i < 0 || share[i] == 0 {
			owners[p] = 0
			continue
		}
		share[i]--
	}
	next := 0
	for p := range owners {
		if owners[p] != 0 {
			continue
		}
		for share[next] == 0 {
			next++
		}
		owners[p] = members[next]
		share[next]--
	}
}

// memberIndex finds a member in a list in any order, -1 where it is not.
func memberIndex(members []op.MemberID, id op.MemberID) int {
	for i, m := range members {
		if m == id {
			return i
		}
	}
	return -1
}
