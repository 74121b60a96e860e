package client

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/mortarmq/mortarmq/client/core"
	"github.com/mortarmq/mortarmq/wire"
)

// Goal: errors.Is and CodeOf find what there is in an error, and nothing else; the text says what to do.
func TestErrors(t *testing.T) {
	kinds := []error{ErrOutcomeUnknown, ErrClosed, ErrSession, ErrMetadata, ErrQuota, ErrReplication, ErrUnauthorized, ErrNotFound, context.Canceled}
	for _, c := range []struct {
		err  core.Err
		text string
		is   []error
	}{
		{core.Err{Reason: core.ReasonRefused, Op: wire.OpPub, Code: wire.CodeUnknownTopic, Message: "no topic 1"},
			"mortarmq: PUB: UNKNOWN_TOPIC: no topic 1", []error{ErrSession, ErrNotFound}},
		{core.Err{Reason: core.ReasonRefused, Op: wire.OpConnect, Code: wire.CodeAuthFailed},
			"mortarmq: CONNECT: AUTH_FAILED: check the token; sent after 100 ms, always the same text", []error{ErrSession, ErrUnauthorized}},
		{core.Err{Reason: core.ReasonRefused, Op: wire.OpPub, Code: 0x4FFF, Unknown: true},
			"mortarmq: PUB: CODE_4FFF (the outcome is unknown)", []error{ErrQuota, ErrOutcomeUnknown}},
		{core.Err{Reason: core.ReasonClosed, Op: wire.OpPub, Unknown: true},
			"mortarmq: PUB: closed (the outcome is unknown)", []error{ErrClosed, ErrOutcomeUnknown}},
		{core.Err{Reason: core.ReasonDisconnected, Op: wire.OpPub, Unknown: true},
			"mortarmq: PUB: the connection broke before the answer (the outcome is unknown)", []error{ErrOutcomeUnknown}},
		{core.Err{Reason: core.ReasonRefused, Op: wire.OpSub, Code: wire.CodeGroupExistsMismatch, Message: "x"},
			"mortarmq: SUB: GROUP_EXISTS_MISMATCH: x", []error{ErrMetadata}},
		{core.Err{Reason: core.ReasonRefused, Op: wire.OpPub, Code: wire.CodeQuorumLost, Message: "x"},
			"mortarmq: PUB: QUORUM_LOST: x", []error{ErrReplication}},
	} {
		err := fmt.Errorf("wrapped: %w", fromCore(&c.err))
		if got := err.Error(); got != "wrapped: "+c.text {
			t.Errorf("%q, want %q", got, c.text)
		}
		for _, kind := range kinds {
			want := false
			for _, is := range c.is {
				want = want || is == kind
			}
			if errors.Is(err, kind) != want {
				t.Errorf("%v: Is(%v) is %v", err, kind, !want)
			}
		}
		if code, ok := CodeOf(err); code != c.err.Code || ok != (code != wire.CodeOK) {
			t.Errorf("%v: code %v, %v", err, code, ok)
		}
	}
	if fromCore(&core.Err{}) != nil {
		t.Error("success is an error")
	}
}

// Goal: zero options work, and impossible ones are named.
func TestOptions(t *testing.T) {
	if err := errors.Join(Options{}.Validate(), ProducerOptions{}.Validate(), ConsumerOptions{}.Validate()); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		Options{Addrs: []string{"a:1", ""}}.Validate(), Options{Keepalive: time.Minute}.Validate(), Options{MaxInFlight: 1000}.Validate(),
		Options{DialTimeout: -1}.Validate(), Options{BackoffMax: -1}.Validate(), Options{Token: string(make([]byte, 70_000))}.Validate(),
		ProducerOptions{MaxBufferedBytes: -1}.Validate(), ConsumerOptions{StrictOrder: true, PartitionHandlers: 2}.Validate(),
		ConsumerOptions{Lease: -1}.Validate(), ConsumerOptions{MaxAttempts: -1}.Validate(),
	} {
		if err == nil {
			t.Error("an impossible option is taken")
		}
	}
}
