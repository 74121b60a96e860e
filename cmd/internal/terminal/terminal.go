// Package terminal tells output that a person watches from output that is kept.
package terminal

import (
	"io"
	"os"
)

// Is says whether w is a terminal that a person reads.
func Is(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && f.Name() != os.DevNull
}
