package client

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/mortarmq/mortarmq/client/core"
	"github.com/mortarmq/mortarmq/wire"
)

var (
	// ErrOutcomeUnknown is what errors.Is finds in the error of a request that may have had its effect, or may yet have it.
	ErrOutcomeUnknown = errors.New("mortarmq: the outcome is unknown")
	// ErrClosed is what errors.Is finds where a Close came first.
	ErrClosed = errors.New("mortarmq: closed")
	// ErrNoBroker is what errors.Is finds where no broker that leads could be reached.
	ErrNoBroker = errors.New("mortarmq: no broker reached")
)

// The families of codes, by the registry's segments; errors.Is finds them in an *Error of the segment.
var (
	ErrSession     = errors.New("mortarmq: refused by protocol or session")      // 0x0xxx
	ErrMetadata    = errors.New("mortarmq: refused by the metadata")             // 0x2xxx
	ErrQuota       = errors.New("mortarmq: refused by back-pressure or a quota") // 0x4xxx
	ErrReplication = errors.New("mortarmq: refused by replication")              // 0x6xxx
	// ErrUnauthorized is AUTH_FAILED, AUTH_TIMEOUT and NOT_AUTHENTICATED, ErrNotFound UNKNOWN_TOPIC, UNKNOWN_PARTITION and
	// UNKNOWN_GROUP: smaller families across the segments.
	ErrUnauthorized = errors.New("mortarmq: not authenticated")
	ErrNotFound     = errors.New("mortarmq: not found")
)

// Error is a request that failed.
type Error struct {
	// Code is the broker's refusal, wire.CodeOK where it gave none.
	Code wire.Code
	// Op is what was asked.
	Op wire.Op
	// Message is the broker's text, or what happened instead of an answer.
	Message string
	// Unknown says that the request may have had its effect.
	Unknown bool

	cause error // ErrClosed or a context's error
}

// Error says what was asked, what came of it and what to do.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("mortarmq: ")
	if e.Op.Known() {
		b.WriteString(e.Op.String())
		b.WriteString(": ")
	}
	sep := ""
	add := func(s string) {
		if s != "" {
			b.WriteString(sep)
			b.WriteString(s)
			sep = ": "
		}
	}
	if e.Code != wire.CodeOK {
		add(e.Code.String())
	}
	add(e.Message)
	if e.Message == "" {
		if info, ok := e.Code.Info(); ok {
			add(info.Advice)
		}
	}
	if e.cause != nil {
		add(within{e.cause}.Error())
	}
	if e.Unknown {
		b.WriteString(" (the outcome is unknown)")
	}
	return b.String()
}

// within is an error as it reads inside another one, whose text names the library already.
type within struct{ error }

func (e within) Error() string { return strings.TrimPrefix(e.error.Error(), "mortarmq: ") }
func (e within) Unwrap() error { return e.error }

// Unwrap is the cause on this side, if there is one.
func (e *Error) Unwrap() error { return e.cause }

// Is finds ErrOutcomeUnknown and the families, and an *Error with the same code.
func (e *Error) Is(target error) bool {
	if t, ok := target.(*Error); ok {
		return t.Code == e.Code && t.Code != wire.CodeOK
	}
	segment := e.Code &^ 0x0FFF
	switch target {
	case ErrOutcomeUnknown:
		return e.Unknown
	case ErrSession:
		return segment == 0x0000 && e.Code != wire.CodeOK
	case ErrMetadata:
		return segment == 0x2000
	case ErrQuota:
		return segment == 0x4000
	case ErrReplication:
		return segment == 0x6000
	case ErrUnauthorized:
		return e.Code == wire.CodeAuthFailed || e.Code == wire.CodeAuthTimeout || e.Code == wire.CodeNotAuthenticated
	case ErrNotFound:
		return e.Code == wire.CodeUnknownTopic || e.Code == wire.CodeUnknownPartition || e.Code == wire.CodeUnknownGroup
	}
	return false
}

// CodeOf is the broker's code in an error, false where there is none.
func CodeOf(err error) (wire.Code, bool) {
	var e *Error
	if errors.As(err, &e) && e.Code != wire.CodeOK {
		return e.Code, true
	}
	return wire.CodeOK, false
}

// fromCore makes the error of a core.Err that failed.
func fromCore(err *core.Err) error {
	if !err.Failed() {
		return nil
	}
	e := &Error{Code: err.Code, Op: err.Op, Message: err.Message, Unknown: err.Unknown}
	switch err.Reason {
	case core.ReasonClosed:
		e.cause = ErrClosed
	case core.ReasonDisconnected:
		if e.Unknown {
			e.Message = "the connection broke before the answer"
		}
	}
	return e
}

// withContext names the context's error as the cause.
func withContext(ctx context.Context, err error) error {
	var e *Error
	if errors.As(err, &e) && e.cause == nil {
		e.cause = context.Cause(ctx)
	}
	return err
}

// waited is the error of a wait that the context ended without any effect.
func waited(ctx context.Context, what string) error {
	return fmt.Errorf("mortarmq: %s: %w", what, context.Cause(ctx))
}
