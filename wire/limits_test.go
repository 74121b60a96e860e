// Goal: the limits are the published numbers; that they agree with each other is asserted at compile time.
package wire

import "testing"

func TestLimitsArePublished(t *testing.T) {
	// Goal: no limit of the protocol changes by accident.
	for _, c := range []struct {
		name      string
		got, want int
	}{
		{"MaxFrameLen", MaxFrameLen, 16_777_216}, {"MaxValueLen", MaxValueLen, 16_776_192},
		{"MaxKeyLen", MaxKeyLen, 255}, {"MaxTopicLen", MaxTopicLen, 255}, {"MaxGroupLen", MaxGroupLen, 255},
		{"MaxErrMessage", MaxErrMessage, 512}, {"MaxOKResultLen", MaxOKResultLen, 16_777_210}, {"Version", Version, 1},
		{"KeepaliveMillis", KeepaliveMillis, 30_000}, {"KeepaliveTimeoutMillis", KeepaliveTimeoutMillis, 45_000},
		{"HalfFrameTimeoutMillis", HalfFrameTimeoutMillis, 10_000}, {"AuthTimeoutMillis", AuthTimeoutMillis, 10_000},
		{"AuthFailDelayMillis", AuthFailDelayMillis, 100}, {"MaxFrameLenBeforeConnect", MaxFrameLenBeforeConnect, 67_584},
		{"MaxPartitions", MaxPartitions, 1024}, {"MaxTopicPairs", MaxTopicPairs, 32_767}, {"PartitionAny", PartitionAny, 0xFFFF},
		{"MaxGroupMembers", MaxGroupMembers, 10}, {"MaxSubscriptionsPerConn", MaxSubscriptionsPerConn, 64},
		{"MaxWaitingPulls", MaxWaitingPulls, 8}, {"MaxUnansweredRequests", MaxUnansweredRequests, 1024},
		{"MaxUnansweredBytes", MaxUnansweredBytes, 33_554_432}, {"DefaultCreditCount", DefaultCreditCount, 256},
		{"DefaultCreditBytes", DefaultCreditBytes, 2_097_152}, {"DedupWindow", DedupWindow, 1024},
		{"MaxUnsettled", MaxUnsettled, 65_536}, {"NoLeader", NoLeader, 0xFFFF},
	} {
		if c.got != c.want {
			t.Errorf("%s is %d, want %d", c.name, c.got, c.want)
		}
	}
}

func TestLimitsOfFixedSizes(t *testing.T) {
	// Goal: the sizes that the compile-time assertions rely on are those that the encoders write.
	for _, c := range []struct {
		name      string
		got, want int
	}{
		{"CONNECT", len((&Connect{}).Append(nil)), connectFixed}, {"PUB", len((&Pub{}).Append(nil)), pubFixedSize},
		{"MSG", len((&Msg{Attempt: 1}).Append(nil)), msgFixedSize}, {"PULL", len((&Pull{}).Append(nil)), pullFixed},
		{"OK", len(AppendOKEmpty(nil, OpPing)), okHeaderSize},
	} {
		if c.got != frameHeaderSize+c.want {
			t.Errorf("%s takes %d bytes, want %d", c.name, c.got-frameHeaderSize, c.want)
		}
	}
}
