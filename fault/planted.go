//go:build faults

package fault

import "github.com/pingcap/failpoint"

// Enabled says whether this build can switch planted bugs on.
const Enabled = true

const prefix = "github.com/mortarmq/mortarmq/fault/"

// On says whether the planted bug called name is switched on.
func On(name string) bool {
	_, err := failpoint.Eval(prefix + name)
	return err == nil
}

// Plant switches the planted bug called name on for the rest of the process.
func Plant(name string) error { return failpoint.Enable(prefix+name, "return(true)") }
