package wire

// DecodeError says why a frame, a payload or a name was refused. All values are made once, so that refusing costs no
// allocation; Message is fit to be sent as the text of the ERR that answers.
type DecodeError struct {
	Code    Code
	Message string
}

// Error is the code's name and the message.
func (e *DecodeError) Error() string { return e.Code.String() + ": " + e.Message }

// CodeOf is the code of an error that this package returned: CodeOK for nil, CodeInternal for an error of others.
func CodeOf(err error) Code {
	if err == nil {
		return CodeOK
	}
	if d, ok := err.(*DecodeError); ok {
		return d.Code
	}
	return CodeInternal
}

// assert panics when an invariant of the caller's is broken. Encoders assert lengths: a frame whose fields do not
// fit their length prefixes would turn the rest of the stream into nonsense.
func assert(ok bool, what string) {
	if !ok {
		panic("wire: " + what)
	}
}
