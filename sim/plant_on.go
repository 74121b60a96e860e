//go:build faults

package sim

import (
	"errors"

	"github.com/mortarmq/mortarmq/fault"
)

// plant fires the canary first: a failpoint that does not take would make every
// planted run hold.
func plant(name string) error {
	if fault.On("canary") {
		return errors.New("the canary is on before it was planted")
	}
	if err := fault.Plant("canary"); err != nil {
		return err
	}
	if !fault.On("canary") {
		return errors.New("the canary was planted and does not fire")
	}
	return fault.Plant(name)
}
