//go:build faults

package fault

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/pingcap/failpoint"
)

// Enabled says whether this build can switch planted bugs on.
const Enabled = true

const prefix = "github.com/mortarmq/mortarmq/fault/"

// planted has the full name of every bug that was planted, by its own. Most of
// what is asked for is not in it: that costs one look and no memory, so that
// what allocates nothing does so in this build too.
var (
	planted  atomic.Pointer[map[string]string]
	planting sync.Mutex
)

// On says whether the planted bug called name is switched on.
func On(name string) bool {
	bugs := planted.Load()
	if bugs == nil {
		return false
	}
	full, ok := (*bugs)[name]
	if !ok {
		return false
	}
	_, err := failpoint.Eval(full)
	return err == nil
}

// Plant switches the planted bug called name on for the rest of the process.
func Plant(name string) error {
	planting.Lock()
	defer planting.Unlock()
	bugs := map[string]string{}
	if old := planted.Load(); old != nil {
		bugs = maps.Clone(*old)
	}
	bugs[name] = prefix + name
	if err := failpoint.Enable(bugs[name], "return(true)"); err != nil {
		return err
	}
	planted.Store(&bugs)
	return nil
}
