package wire

// Limits of frames and fields, in bytes (spec section 1). Nobody may raise them: both sides refuse what is beyond.
const (
	// MaxFrameLen bounds the length field of a frame: the op byte and the payload.
	MaxFrameLen = 16 << 20
	// MaxValueLen bounds the value of a PUB or a MSG. The rest of the frame is left to headers, key and later tails.
	MaxValueLen = MaxFrameLen - 1024
	// MaxKeyLen bounds the key of a PUB or a MSG.
	MaxKeyLen = 255
	// MaxTopicLen bounds a topic name.
	MaxTopicLen = 255
	// MaxGroupLen bounds a group name.
	MaxGroupLen = 255
	// MaxTokenLen bounds the token of a CONNECT: it is what token_len can say.
	MaxTokenLen = 1<<16 - 1
	// MaxErrMessage bounds the text of an ERR.
	MaxErrMessage = 512
	// MaxOKResultLen bounds the result of an OK. Op byte, request_op and result_len take the other six bytes.
	MaxOKResultLen = MaxFrameLen - 6
	// MaxFrameLenBeforeConnect is MaxFrameLen for a connection whose CONNECT has not succeeded yet.
	MaxFrameLenBeforeConnect = 66 << 10
)

// Version is the protocol version that CONNECT carries in its first field (spec section 5).
const Version = 1

// Times of the protocol, in milliseconds (spec section 1; AuthFailDelayMillis: error registry, 0006).
const (
	// KeepaliveMillis is how often a client lets hear from itself.
	KeepaliveMillis = 30_000
	// KeepaliveTimeoutMillis is how long the server waits for a complete frame before it closes.
	KeepaliveTimeoutMillis = 45_000
	// HalfFrameTimeoutMillis is the longest silence after the last byte of an incomplete frame.
	HalfFrameTimeoutMillis = 10_000
	// AuthTimeoutMillis is how long a connection may stay without a successful CONNECT.
	AuthTimeoutMillis = 10_000
	// AuthFailDelayMillis is how long AUTH_FAILED is held back.
	AuthFailDelayMillis = 100
)

// Limits of topics, groups and partitions (spec section 3).
const (
	// MaxPartitions bounds the partition count of a topic.
	MaxPartitions = 1024
	// MaxTopicPairs bounds the topics that can ever be declared: each takes an odd id and the even one behind it.
	MaxTopicPairs = 32_767
	// PartitionAny in a PUB lets the broker choose; a SUB must carry it in this version.
	PartitionAny = 0xFFFF
	// NoLeader is a leader_id that says that the leader is not known.
	NoLeader = 0xFFFF
	// MaxGroupMembers bounds the members of a group.
	MaxGroupMembers = 10
	// DedupWindow is how many sequences of a producer are remembered per partition.
	DedupWindow = 1024
	// MaxUnsettled bounds the sequences of one partition and group that are delivered but not settled.
	MaxUnsettled = 65_536
)

// Limits of a connection (spec section 3, "Pipelining"; error registry, 0025).
const (
	// MaxSubscriptionsPerConn bounds the subscriptions of one connection.
	MaxSubscriptionsPerConn = 64
	// MaxWaitingPulls bounds the PULLs of one connection that are not answered, the waiting one counted.
	MaxWaitingPulls = 8
	// MaxUnansweredRequests is the number of unanswered requests at which reading stops.
	MaxUnansweredRequests = 1024
	// MaxUnansweredBytes is the size of unanswered requests at which reading stops.
	MaxUnansweredBytes = 32 << 20
	// DefaultCreditCount is the credit window of a subscription in messages, where the client has no other wish.
	DefaultCreditCount = 256
	// DefaultCreditBytes is the credit window of a subscription in bytes, where the client has no other wish.
	DefaultCreditBytes = 2 << 20
)

// Sizes that the codec relies on. A frame starts with four length bytes and the op byte.
const (
	frameLenSize    = 4
	frameHeaderSize = frameLenSize + 1
	okHeaderSize    = 1 + 4     // request_op, result_len
	pubFixedSize    = 24 + 4    // a PUB without key and value
	msgFixedSize    = 52 + 4    // a MSG without key and value
	connectFixed    = 5 + 4     // a CONNECT without token
	pullFixed       = 20 + 12   // a PULL without its epochs
	maxEpochs       = 1<<16 - 1 // what ownership_epochs_len can say
)

// The limits are asserted against each other at compile time: a constant below zero does not fit an unsigned one.
const (
	// The largest PUB and the largest MSG fit a frame.
	_ uint = MaxFrameLen - (1 + pubFixedSize + MaxKeyLen + MaxValueLen)
	_ uint = MaxFrameLen - (1 + msgFixedSize + MaxKeyLen + MaxValueLen)
	// The largest OK fills a frame exactly.
	_ uint = MaxFrameLen - (1 + okHeaderSize + MaxOKResultLen)
	_ uint = (1 + okHeaderSize + MaxOKResultLen) - MaxFrameLen
	// A CONNECT with the largest token is let in before CONNECT has succeeded.
	_ uint = MaxFrameLenBeforeConnect - (1 + connectFixed + MaxTokenLen)
	_ uint = MaxFrameLen - MaxFrameLenBeforeConnect
	// The longest list of epochs fits a frame, and a member that owns every partition can name all of them.
	_ uint = MaxFrameLen - (1 + pullFixed + 8*maxEpochs)
	_ uint = maxEpochs - MaxPartitions
	// Topic ids, partitions and the two sentinels stay apart.
	_ uint = 0xFFFF - 2*MaxTopicPairs
	_ uint = PartitionAny - MaxPartitions
	// Key, topic and group lengths fit one byte, as node formats assume.
	_ uint8 = MaxKeyLen
	_ uint8 = MaxTopicLen
	_ uint8 = MaxGroupLen
	// The server waits one and a half keepalives, and a half frame times out before the keepalive does.
	_ uint = KeepaliveTimeoutMillis - KeepaliveMillis*3/2
	_ uint = KeepaliveMillis*3/2 - KeepaliveTimeoutMillis
	_ uint = KeepaliveTimeoutMillis - HalfFrameTimeoutMillis - 1
	_ uint = AuthTimeoutMillis - AuthFailDelayMillis - 1
	// One frame always fits the bytes that may stay unanswered; so do the PULLs that may wait.
	_ uint = MaxUnansweredBytes - MaxFrameLen - frameLenSize
	_ uint = MaxUnansweredRequests - MaxWaitingPulls
)
