// Goal: the registry in code is the published one, column by column.
package wire

import (
	"fmt"
	"strings"
	"testing"
)

// publishedCodes is the table of the error registry as it was published: code, name, close, outcome, retry, advice. It is
// written out here, and not made from anything, because a published code never changes.
const publishedCodes = `
0001 | BAD_LENGTH | yes | no | - | fix the client
0002 | UNKNOWN_OP | yes | no | - | upgrade the client
0003 | MALFORMED_PAYLOAD | yes | no | - | fix the client
0004 | UNSUPPORTED_VERSION | yes | no | - | upgrade the client; the text names the versions spoken
0005 | NOT_AUTHENTICATED | yes | no | - | send CONNECT first
0006 | AUTH_FAILED | yes | no | - | check the token; sent after 100 ms, always the same text
0007 | AUTH_TIMEOUT | yes | no | - | send CONNECT within 10 s
0008 | UNKNOWN_TOPIC | no | no | - | declare it first
0009 | UNKNOWN_PARTITION | no | no | - | fix the client
000A | INTERNAL | no | ? | - | report it with the diagnostic id in the text
000B | INVALID_TOPIC | no | no | - | fix the name; the text says which rule it breaks
0010 | SEQ_GAP | no | no | - | publish what is missing, or take a new producer_id
0011 | SEQ_EXPIRED | no | no | - | take a new producer_id: the window no longer knows this sequence
0012 | PRODUCER_EPOCH_STALE | no | no | l | find the leader again
0013 | PRODUCER_SEQ_INVALID | no | no | - | fix the client
0020 | STALE_GENERATION | no | no | r | wait for the NOTICE, then go on with the new epochs
0021 | NOT_OWNER | no | no | r | stop work on that partition
0022 | STALE_OWNER | no | no | r | drop the delivery: another member has it now
0023 | UNKNOWN_DELIVERY | no | no | c | nothing: it is settled already
0024 | GROUP_MEMBER_LIMIT | no | no | - | shrink the group (10 members in v0)
0025 | GROUP_ASSIGNMENT_LIMIT | no | no | - | fewer subscriptions on this connection
0026 | UNKNOWN_MEMBER | no | no | r | join again
0027 | MAX_WAITING_PULLS | no | no | b | wait for the PULLs in flight
0030 | DLQ_PATH_OVERFLOW | no | no, except that the dead letter itself is settled | - | a dead letter died again: it is in quarantine, an operator decides
0031 | DLQ_UNAVAILABLE | no | no | b | nothing is lost: the source keeps it
2001 | TOPIC_EXISTS_MISMATCH | no | no | - | same name, other partition count: mend one of them
2002 | GROUP_EXISTS_MISMATCH | no | no | - | the same, for a group
2003 | METADATA_READ_ONLY | no | no | b | a failover or a quarantine is under way
2004 | METADATA_QUARANTINED | no | no | - | an operator must act (runbook RB-2)
2005 | UNKNOWN_GROUP | no | no | - | SUB without MUST_EXIST creates it
2006 | MUTATION_FENCED | no | no | l | send the change again, to the new leader
2007 | MUTATION_NOT_PACKABLE | no | no | - | the change does not fit one metadata record: make it smaller
4001 | BACKPRESSURE | no | no | b | back off
4002 | QUOTA_EXCEEDED | no | no | b | slow down
4003 | RATE_LIMITED | no | no | b | back off
4004 | STORAGE_HIGH_WATERMARK | no | no | b | the disk is nearly full; consumers are not affected
4005 | MESSAGE_EXCEEDS_CREDIT | no | no | - | raise credit_bytes: one message is larger than the window
4006 | NO_CREDIT | no | no | c | send CREDIT; this is flow control, not a fault
4007 | SLOW_CONSUMER | yes | ? | r | read faster, reconnect
6001 | QUORUM_LOST | no | ? | l | the write was under way when the majority went: repeat with the same producer_seq
6002 | READ_ONLY_DEGRADED | no | no | b | refused before it was written
6003 | IN_SYNC_REPLICAS_NOT_ENOUGH | no | no | b | repair a follower
6004 | FOLLOWER_LAG | no | no | - | a warning (logs, '/stats'), never an answer to a request
6005 | STALE_LEADER_EPOCH | no | no | l | this node does not lead; the text names the leader
6006 | LEASE_EXPIRED | no | no | l | the leader has lost contact with its majority
6007 | CATCHUP_REQUIRED | no | no | b | peer plane: the follower must catch up first
6008 | LOG_GAP | no | no | b | peer plane: an append does not join the log
6009 | DIVERGENT_COMMITTED | no | no | - | logs differ at or below commit: the node sets its data aside, an operator decides
600A | QUORUM_RECOVERED | no | no | - | an event (logs, '/stats'), never an answer to a request
600B | UNCLEAN_ELECTION_REJECTED | no | no | - | no majority of intact logs: refuse to elect rather than lose data
600C | ELECTION_TIMEOUT | no | no | b | no leader was found in time
`

func TestCodesArePublished(t *testing.T) {
	// Goal: 51 codes with the published columns, in rising order, and nothing else.
	close := map[bool]string{true: "yes", false: "no"}
	outcome := map[Outcome]string{OutcomeNo: "no", OutcomeUnknown: "?"}
	retry := map[Retry]string{RetryNever: "-", RetryBackoff: "b", RetryLeader: "l", RetryRejoin: "r", RetryContinue: "c"}
	want := strings.Split(strings.TrimSpace(publishedCodes), "\n")
	got := Codes()
	if len(got) != 51 || len(want) != 51 {
		t.Fatalf("%d codes, %d published, want 51", len(got), len(want))
	}
	for i, c := range got {
		row := fmt.Sprintf("%04X | %s | %s | %s | %s | %s",
			uint16(c.Code), c.Name, close[c.Close], outcome[c.Outcome], retry[c.Retry], c.Advice)
		// The one outcome with an exception is "no" for the request that got the code.
		published := strings.Replace(want[i], "| no, except that the dead letter itself is settled |", "| no |", 1)
		if strings.ReplaceAll(row, "`", "'") != published {
			t.Errorf("\n got %s\nwant %s", row, published)
		}
		if i > 0 && got[i-1].Code >= c.Code {
			t.Errorf("%v does not rise above %v", c.Code, got[i-1].Code)
		}
		info, ok := c.Code.Info()
		if !ok || info != c || c.Code.String() != c.Name {
			t.Errorf("%v: Info and String do not find its row", c.Code)
		}
	}
}

func TestCodesUnknown(t *testing.T) {
	// Goal: every number that is not registered is kept and shown as a number; segments other than the four are empty.
	known := 0
	for n := range 1 << 16 {
		c := Code(n)
		info, ok := c.Info()
		if ok {
			known++
			if seg := n >> 12; seg != 0 && seg != 2 && seg != 4 && seg != 6 {
				t.Errorf("%v lies in a reserved segment", c)
			}
			continue
		}
		want := fmt.Sprintf("CODE_%04X", n)
		if n == 0 {
			want = "OK"
		}
		if c.String() != want || info.Code != c || info.Name != "" {
			t.Fatalf("%d: %q, want %q", n, c.String(), want)
		}
	}
	if known != 51 {
		t.Fatalf("%d codes have a row, want 51", known)
	}
}

func TestCodesSliceIsTheCallers(t *testing.T) {
	// Goal: whoever writes to what Codes returned does not change the registry.
	Codes()[0].Name = "X"
	if CodeBadLength.String() != "BAD_LENGTH" {
		t.Fatal("the registry was changed")
	}
}

func TestCodeOf(t *testing.T) {
	// Goal: the code to answer with is found on our errors, and a foreign error is not taken for one.
	if c := CodeOf(nil); c != CodeOK {
		t.Error(c)
	}
	if c := CodeOf(errFrameOp); c != CodeUnknownOp {
		t.Error(c)
	}
	if c := CodeOf(fmt.Errorf("foreign")); c != CodeInternal {
		t.Error(c)
	}
	if s := errPingTail.Error(); s != "MALFORMED_PAYLOAD: PING has a payload" {
		t.Error(s)
	}
}
