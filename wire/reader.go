package wire

// FrameReader cuts a byte stream into frames without copying those that arrive whole. The zero value is ready, with
// MaxFrameLen as its limit. It takes turns: Feed hands it what was received, Next is called until it returns false.
//
// Ownership. Feed borrows data until Next has returned false (or Unread took the rest back); from then on the caller may
// reuse it, for what remains of an incomplete frame has been copied. The payload of a frame is borrowed until the next call
// of Next or Feed, or, where it lies in data, until data is reused. A frame that says Owned is the caller's for good.
//
// Invariants.
//
//	R1  What is buffered is a proper prefix of one frame, and every byte of it arrived. A declared length makes the
//	    buffer smaller, never larger: it has room for at most twice what arrived or for the frame, whichever is less,
//	    but for bufferMin in any case.
//	R2  Once Next has returned false with no incomplete frame, the reader holds no buffer: an idle connection costs none.
//	R3  A frame whose length is 0 or beyond the limit is refused when its fourth byte is there, one whose op is none of
//	    the fifteen when its fifth is there; no byte of a refused frame's payload is buffered.
//	R4  An error is final. The reader never looks for the beginning of another frame.
type FrameReader struct {
	// MaxLen is the largest length that is accepted; 0 is MaxFrameLen. A server starts with MaxFrameLenBeforeConnect.
	MaxLen int
	// FromClient makes MSG and NOTICE unknown ops, which they are when a client sends them.
	FromClient bool

	data []byte // what was fed and not taken yet; borrowed
	buf  []byte // the incomplete frame's bytes that arrived with earlier data
	err  *DecodeError
}

const (
	// bufferMin is the smallest capacity of a buffer.
	bufferMin = 256
	// bufferKeepMax is the largest buffer that is filled again for the next frame that is cut in two. A larger one is given
	// to the receiver of its frame.
	bufferKeepMax = 4096
)

var (
	errFrameEmpty = &DecodeError{Code: CodeBadLength, Message: "the length of a frame must not be 0"}
	errFrameLong  = &DecodeError{Code: CodeBadLength, Message: "the length of a frame must not be above 16777216"}
	errFrameEarly = &DecodeError{Code: CodeBadLength,
		Message: "the length of a frame must not be above 67584 before CONNECT has succeeded"}
	errFrameLimit = &DecodeError{Code: CodeBadLength, Message: "the length of a frame is above the limit in force"}
	errFrameOp    = &DecodeError{Code: CodeUnknownOp, Message: "the op of a frame is not known in protocol version 1"}
	errFramePush  = &DecodeError{Code: CodeUnknownOp, Message: "MSG and NOTICE are sent by servers only"}
)

// SetMaxLen raises the limit: to MaxFrameLen once CONNECT has succeeded. It holds from the next call of Next, so a server
// that has not decided about a CONNECT yet stops calling Next, for what comes behind a CONNECT waits for its outcome
// whatever its length (spec section 3, "Before CONNECT").
func (r *FrameReader) SetMaxLen(n int) { r.MaxLen = n }

// Feed hands over bytes just received. What was fed before must have been taken: Next returned false or Unread was called.
func (r *FrameReader) Feed(data []byte) {
	assert(len(r.data) == 0, "FrameReader was fed before Next returned false")
	if r.err == nil {
		r.data = data
	}
}

// Next returns the next complete frame, or false when more bytes are needed. An error is a *DecodeError with BAD_LENGTH or
// UNKNOWN_OP and final: the connection cannot be used any more.
func (r *FrameReader) Next() (Frame, bool, error) {
	if r.err != nil {
		return Frame{}, false, r.err
	}
	if len(r.buf) > 0 {
		return r.nextBuffered()
	}
	size, err := r.judge(r.data)
	if err != nil {
		return r.fail(err)
	}
	if size == 0 || size > len(r.data) {
		if len(r.data) == 0 {
			r.buf = nil // R2
			return Frame{}, false, nil
		}
		r.store(len(r.data), size)
		return Frame{}, false, nil
	}
	f := Frame{Op: Op(r.data[frameLenSize]), Payload: r.data[frameHeaderSize:size:size]}
	r.data = r.data[size:]
	return f, true, nil
}

// nextBuffered goes on with the frame that earlier data ended in.
func (r *FrameReader) nextBuffered() (Frame, bool, error) {
	if missing := frameHeaderSize - len(r.buf); missing > 0 {
		r.store(min(missing, len(r.data)), 0)
	}
	size, err := r.judge(r.buf)
	if err != nil {
		return r.fail(err)
	}
	if size == 0 {
		return Frame{}, false, nil
	}
	r.store(min(size-len(r.buf), len(r.data)), size)
	if len(r.buf) < size {
		return Frame{}, false, nil
	}
	f := Frame{Op: Op(r.buf[frameLenSize]), Payload: r.buf[frameHeaderSize:size:size]}
	if cap(r.buf) > bufferKeepMax {
		f.Owned = true
		r.buf = nil
	} else {
		r.buf = r.buf[:0]
	}
	return f, true, nil
}

// judge is the size on the wire of the frame that b begins with, 0 while that cannot be told yet, and R3. Only a frame
// whose header is whole has a size.
func (r *FrameReader) judge(b []byte) (int, *DecodeError) {
	if len(b) < frameLenSize {
		return 0, nil
	}
	n := be.Uint32(b)
	limit := r.MaxLen
	if limit <= 0 || limit > MaxFrameLen {
		limit = MaxFrameLen
	}
	if n == 0 {
		return 0, errFrameEmpty
	}
	if n > uint32(limit) {
		return 0, tooLong(limit)
	}
	if len(b) < frameHeaderSize {
		return 0, nil
	}
	if op := Op(b[frameLenSize]); !op.Known() {
		return 0, errFrameOp
	} else if r.FromClient && !op.FromClient() {
		return 0, errFramePush
	}
	return frameLenSize + int(n), nil
}

func tooLong(limit int) *DecodeError {
	switch limit {
	case MaxFrameLen:
		return errFrameLong
	case MaxFrameLenBeforeConnect:
		return errFrameEarly
	}
	return errFrameLimit
}

// store moves n bytes from data into the buffer, which belongs to a frame of the given size, 0 when it is not known yet.
func (r *FrameReader) store(n, size int) {
	if need := len(r.buf) + n; need > cap(r.buf) {
		c := 2 * need
		if size > 0 {
			c = min(c, size)
		}
		c = max(c, bufferMin)
		grown := make([]byte, len(r.buf), c)
		copy(grown, r.buf)
		r.buf = grown
	}
	r.buf = append(r.buf, r.data[:n]...)
	r.data = r.data[n:]
}

func (r *FrameReader) fail(err *DecodeError) (Frame, bool, error) {
	r.err, r.data, r.buf = err, nil, nil
	return Frame{}, false, err
}

// Unread takes back what was fed and not taken yet, for a caller that stops at a frame boundary in the middle of it. The
// caller feeds these bytes again, in front of what arrives later. They are still part of the data that was fed.
func (r *FrameReader) Unread() []byte {
	rest := r.data
	r.data = nil
	return rest
}

// Partial is the number of bytes of an incomplete frame that have arrived, once Next has returned false. While it is not 0
// the half-frame timeout runs, and reading must not stop.
func (r *FrameReader) Partial() int { return len(r.buf) }

// Err is the error that ended the reader, nil while it goes on.
func (r *FrameReader) Err() error {
	if r.err == nil {
		return nil
	}
	return r.err
}
