package msgtrans

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	wire "github.com/mortarmq/mortarmq/wire/msgtrans"
)

// The kinds of error, by consequence. Compare with errors.Is; every error of this
// package is an [Error] of one of these kinds or wraps context.Canceled.
var (
	// ErrTimeout says that time ran out: no Response, no handshake, no room in the
	// queue, or no traffic. A request may have been acted on.
	ErrTimeout = errors.New("timeout")
	// ErrClosed says that the connection has ended regularly, here or there.
	ErrClosed = errors.New("closed")
	// ErrRefused says that the server did not take the connection.
	ErrRefused = errors.New("refused")
	// ErrRemote says that the peer or the way to it broke the connection: a reset,
	// an end in mid-packet, a packet that cannot be read.
	ErrRemote = errors.New("broken by the peer")
	// ErrLimit says that a limit was hit; which one, says the cause.
	ErrLimit = errors.New("limit")
	// ErrInvalid says that the call itself is wrong: a message that the format cannot
	// carry, a second answer to a request. Nothing was sent.
	ErrInvalid = errors.New("invalid")
)

// Error is what was being done, the kind of failure and its cause.
type Error struct {
	Op    string
	Kind  error // one of the above
	Cause error // may be nil
}

func (e *Error) Error() string {
	if e.Cause == nil {
		return fmt.Sprintf("%s%s: %v", prefix, e.Op, e.Kind)
	}
	// The causes have the prefix of their package, too; once is enough.
	return prefix + strings.ReplaceAll(fmt.Sprintf("%s: %v: %v", e.Op, e.Kind, e.Cause), prefix, "")
}

// prefix is in front of every error of this package.
const prefix = "msgtrans: "

// unsent returns the cause of an error after which the packet may go elsewhere.
func unsent(why error) error { return fmt.Errorf("%w: %w", errUnsent, why) }

// Unwrap makes errors.Is find both the kind and the cause.
func (e *Error) Unwrap() []error {
	if e.Cause == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Cause}
}

// Timeout makes the error a timeout for those who ask the way package net does.
func (e *Error) Timeout() bool { return errors.Is(e.Kind, ErrTimeout) }

// errUnsent marks an error of a connection that ended before the packet was
// queued: a Client may send it on its next connection.
var errUnsent = errors.New("not sent")

// during returns err as an [Error] of op.
func during(op string, err error) error {
	var e *Error
	if errors.As(err, &e) {
		return &Error{Op: op, Kind: e.Kind, Cause: err}
	}
	return &Error{Op: op, Kind: kindOf(err), Cause: err}
}

func kindOf(err error) error {
	switch {
	case wire.IsLimit(err):
		return ErrLimit
	case errors.Is(err, context.DeadlineExceeded):
		return ErrTimeout
	}
	return ErrRemote
}

// unsendable returns what is wrong with a message before anything is sent of it.
func unsendable(op string, err error) error {
	if wire.IsLimit(err) {
		return &Error{Op: op, Kind: ErrLimit, Cause: err}
	}
	return &Error{Op: op, Kind: ErrInvalid, Cause: err}
}

// contextError returns why ctx ended the operation op.
func contextError(op string, ctx context.Context) error {
	cause := context.Cause(ctx)
	if !errors.Is(cause, ctx.Err()) {
		cause = fmt.Errorf("%w: %w", ctx.Err(), cause) // of WithCancelCause
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &Error{Op: op, Kind: ErrTimeout, Cause: cause}
	}
	return fmt.Errorf("msgtrans: %s: %w", op, cause)
}

// endOf returns what the failure of a read or a write means for the connection.
func endOf(op string, err error) error {
	if errors.Is(err, io.EOF) {
		return &Error{Op: op, Kind: ErrClosed, Cause: errPeerClosed}
	}
	return during(op, err)
}

var (
	errPeerClosed  = errors.New("by the peer")
	errLocalClosed = errors.New("by this end")
	errNoEnd       = errors.New("the peer has not ended its side")
)
