package wire

import "slices"

// Code is an error code of the registry. Codes are only ever added: a peer keeps one that it does not know as a number.
type Code uint16

// CodeOK stands for "no error". It is never sent.
const CodeOK Code = 0

// Protocol and session.
const (
	CodeBadLength            Code = 0x0001
	CodeUnknownOp            Code = 0x0002
	CodeMalformedPayload     Code = 0x0003
	CodeUnsupportedVersion   Code = 0x0004
	CodeNotAuthenticated     Code = 0x0005
	CodeAuthFailed           Code = 0x0006
	CodeAuthTimeout          Code = 0x0007
	CodeUnknownTopic         Code = 0x0008
	CodeUnknownPartition     Code = 0x0009
	CodeInternal             Code = 0x000A
	CodeInvalidTopic         Code = 0x000B
	CodeSeqGap               Code = 0x0010
	CodeSeqExpired           Code = 0x0011
	CodeProducerEpochStale   Code = 0x0012
	CodeProducerSeqInvalid   Code = 0x0013
	CodeStaleGeneration      Code = 0x0020
	CodeNotOwner             Code = 0x0021
	CodeStaleOwner           Code = 0x0022
	CodeUnknownDelivery      Code = 0x0023
	CodeGroupMemberLimit     Code = 0x0024
	CodeGroupAssignmentLimit Code = 0x0025
	CodeUnknownMember        Code = 0x0026
	CodeMaxWaitingPulls      Code = 0x0027
	CodeDLQPathOverflow      Code = 0x0030
	CodeDLQUnavailable       Code = 0x0031
)

// Metadata.
const (
	CodeTopicExistsMismatch Code = 0x2001
	CodeGroupExistsMismatch Code = 0x2002
	CodeMetadataReadOnly    Code = 0x2003
	CodeMetadataQuarantined Code = 0x2004
	CodeUnknownGroup        Code = 0x2005
	CodeMutationFenced      Code = 0x2006
	CodeMutationNotPackable Code = 0x2007
)

// Back-pressure and quota.
const (
	CodeBackpressure         Code = 0x4001
	CodeQuotaExceeded        Code = 0x4002
	CodeRateLimited          Code = 0x4003
	CodeStorageHighWatermark Code = 0x4004
	CodeMessageExceedsCredit Code = 0x4005
	CodeNoCredit             Code = 0x4006
	CodeSlowConsumer         Code = 0x4007
)

// Replication.
const (
	CodeQuorumLost              Code = 0x6001
	CodeReadOnlyDegraded        Code = 0x6002
	CodeInSyncReplicasNotEnough Code = 0x6003
	CodeFollowerLag             Code = 0x6004
	CodeStaleLeaderEpoch        Code = 0x6005
	CodeLeaseExpired            Code = 0x6006
	CodeCatchupRequired         Code = 0x6007
	CodeLogGap                  Code = 0x6008
	CodeDivergentCommitted      Code = 0x6009
	CodeQuorumRecovered         Code = 0x600A
	CodeUncleanElectionRejected Code = 0x600B
	CodeElectionTimeout         Code = 0x600C
)

// Outcome is what a request that got a code did: the registry's column of that name.
type Outcome uint8

const (
	// OutcomeNo says that the request certainly had no effect.
	OutcomeNo Outcome = iota
	// OutcomeUnknown says that the request may have had, or may yet have, its effect.
	OutcomeUnknown
)

// Retry is what a client library does by itself when a request got a code.
type Retry uint8

const (
	// RetryNever hands the code to the caller.
	RetryNever Retry = iota
	// RetryBackoff waits and repeats.
	RetryBackoff
	// RetryLeader finds the leader and repeats.
	RetryLeader
	// RetryRejoin joins the group again.
	RetryRejoin
	// RetryContinue goes on as if the request had succeeded.
	RetryContinue
)

// CodeInfo is one row of the registry.
type CodeInfo struct {
	Code    Code
	Name    string
	Close   bool // the broker closes the connection after sending it
	Outcome Outcome
	Retry   Retry
	Advice  string // what the caller should do
}

// String is the name in the registry, CODE_XXXX for a code that it does not have.
func (c Code) String() string {
	if i := codeIndex(c); i >= 0 {
		return codeTable[i].Name
	}
	if c == CodeOK {
		return "OK"
	}
	const hex = "0123456789ABCDEF"
	return "CODE_" + string([]byte{hex[c>>12], hex[c>>8&0xF], hex[c>>4&0xF], hex[c&0xF]})
}

// Info is the code's row of the registry, false where it has none.
func (c Code) Info() (CodeInfo, bool) {
	i := codeIndex(c)
	if i < 0 {
		return CodeInfo{Code: c}, false
	}
	return codeTable[i], true
}

// Codes returns the registry in rising order of code. The slice is the caller's.
func Codes() []CodeInfo { return slices.Clone(codeTable[:]) }

// codeIndex is the row of a code, or -1: a binary search, since the four segments are sparse.
func codeIndex(c Code) int {
	lo, hi := 0, len(codeTable)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if codeTable[mid].Code < c {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo < len(codeTable) && codeTable[lo].Code == c {
		return lo
	}
	return -1
}
