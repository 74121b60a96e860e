package sim

import "github.com/mortarmq/mortarmq/clock"

// The kinds of event. What each takes stands at where it is carried out:
// clients in world.go, faults in faults.go.
var eventKinds = []string{
	// clients
	"client", "publish", "raw", "step", "hostile", "churn",
	// what an operator does
	"redrive", "purge", "reset", "delete",
	// what the books must say
	"books",
	"client_crash", "client_leave", "client_stall", "storm",
	// the node's process
	"kill", "power", "stop", "pause",
	// its disk
	"disk_slow", "disk_stall", "sync_fail", "write_fail", "read_fail", "enospc",
	"lie", "rot", "lose", "misdirect",
	// its clock
	"wall", "rate",
	// the network between it and a client
	"cut", "halfopen", "partition", "slow_link",
}

// Words that stand for numbers in a plan.
var (
	clientKinds = []string{"producer", "consumer", "raw", "member"}
	laneWords   = []string{"journal", "background", "read"}
	dirWords    = []string{"both", "to_node", "from_node"}
	onWords     = []string{"now", "journal_write", "journal_prepare", "superblock_write", "checkpoint_write", "segment_create", "metadata_write"}
	doWords     = []string{"pull", "ack", "retry", "reject", "release", "progress", "leave", "join"}
	wantWords   = []string{"OK", "UNKNOWN_DELIVERY", "STALE_OWNER", "UNKNOWN_MEMBER", "DLQ_PATH_OVERFLOW", "GROUP_MEMBER_LIMIT", "UNKNOWN_GROUP", "UNKNOWN_TOPIC"}
	toWords     = []string{"earliest", "latest", "sequence", "time"} // as node.ResetKind
	areaWords   = []string{"journal", "superblock", "metadata", "topics", "checkpoints"}
)

// What the words of clientKinds and dirWords stand for.
const (
	clientProducer = iota
	clientConsumer
	clientRaw
	clientMember
)

// What the words of doWords stand for.
const (
	doPull = iota
	doAck
	doRetry
	doReject
	doRelease
	doProgress
	doLeave
	doJoin
)

const (
	dirBoth = iota
	dirToNode
	dirFromNode
)

// argWords gives the words that an argument may be written with.
func argWords(name string) []string {
	switch name {
	case "kind":
		return clientKinds
	case "lane":
		return laneWords
	case "dir":
		return dirWords
	case "area":
		return areaWords
	case "on":
		return onWords
	case "to":
		return toWords
	case "do":
		return doWords
	case "want":
		return wantWords
	}
	return nil
}

// knobDefaults are what a plan can set, and what they are when it does not.
// Sizes are small, so that files are filled, recycled and checkpointed many
// times in a short run.
var knobDefaults = []Arg{
	{"journal_file", 256 << 10},
	{"journal_cap", 16 << 20},
	{"checkpoint_bytes", 512 << 10},
	{"checkpoint_every", int64(5 * clock.Second)},
	{"segment_bytes", 64 << 10},
	{"snapshot_records", 64},
	{"read_chunk", 64 << 10},
	{"piece_bytes", 16 << 10},
	{"lease", int64(3 * clock.Second)},
	{"backoff", int64(100 * clock.Millisecond)},
	{"backoff_max", int64(2 * clock.Second)},
	{"attempts", 5},
	{"drain", int64(10 * clock.Minute)}, // how long everything may take when the storm is over
	{"poll_wait", int64(5 * clock.Second)},
	{"rate_limit", 0},
	{"credit_count", 64},
	{"credit_bytes", 256 << 10},
	{"capacity", 1 << 30},
	{"reserve_percent", 10},
	{"link_min", int64(50 * clock.Microsecond)},
	{"link_max", int64(500 * clock.Microsecond)},
	{"turn_min", int64(clock.Microsecond)},
	{"turn_max", int64(50 * clock.Microsecond)},
	{"split", 300},              // permille of turns that take only a part of what waits
	{"slow", 1000},              // permille of the disk's usual latencies
	{"tokens", 0},               // 1: clients must authenticate
	{"inflight", 64},            // publishes that a producer has under way, at most
	{"wall", 1_750_000_000_000}, // ms at the start
}

func knobDefault(name string) (int64, bool) {
	for _, k := range knobDefaults {
		if k.Name == name {
			return k.Value, true
		}
	}
	return 0, false
}
