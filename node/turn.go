package node

import (
	"github.com/mortarmq/mortarmq/clock"
	"github.com/mortarmq/mortarmq/disk"
	"github.com/mortarmq/mortarmq/net"
)

// InputKind says what an input carries.
type InputKind uint8

// The kinds of input. A deadline that was reached is an empty turn.
const (
	InputInvalid InputKind = iota
	InputNet               // Net
	InputDisk              // Disk
	InputQuery             // Query
	InputStop              // drain, then exit
)

// Input is one thing that happened to the node.
type Input struct {
	Kind  InputKind
	Net   net.Event
	Disk  disk.Completion
	Query Query
}

// Level ranks log records as log/slog does.
type Level int8

// The levels.
const (
	LevelDebug Level = -4
	LevelInfo  Level = 0
	LevelWarn  Level = 4
	LevelError Level = 8
)

// LogRecord is one line for the log.
type LogRecord struct {
	Level Level
	Text  string
}

// Exit says that the node has ended and why; Failed means not by request.
type Exit struct {
	Failed bool
	Reason string
}

// Effects are what a turn asks of its driver. The driver carries them out once,
// when the turn has ended, and reuses the slices; all that they point to is
// borrowed until the next turn, but for disk buffers, which are borrowed until
// their completion.
type Effects struct {
	Net      []net.Request
	Disk     []disk.Request
	Answers  []Answer
	Logs     []LogRecord
	Deadline clock.Instant // when the next turn is due though nothing happened
	Exit     *Exit
}

// Reset empties the effects and keeps their memory.
func (e *Effects) Reset() {
	clear(e.Answers)
	clear(e.Logs)
	e.Net, e.Disk, e.Answers, e.Logs = e.Net[:0], e.Disk[:0], e.Answers[:0], e.Logs[:0]
	e.Deadline = clock.Never
	e.Exit = nil
}
