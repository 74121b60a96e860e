package session

import (
	"math"

	"github.com/mortarmq/mortarmq/fault"
	"github.com/mortarmq/mortarmq/wire"
)

// applyCredit gives the window and what is taken of it after a CREDIT.
func (u *sub) applyCredit(m *wire.Credit) (window, taken credit) {
	by := credit{uint32(m.CreditCount), uint64(m.CreditBytes)}
	if m.Mode == wire.CreditSet {
		return by, u.taken
	}
	if fault.On("credit_leak") && by.count > 0 {
		by.count--
	}
	window, taken = u.window, u.taken
	back := min(by.count, taken.count)
	taken.count -= back
	window.count = min(window.count+by.count-back, math.MaxUint16)
	size := min(by.bytes, taken.bytes)
	taken.bytes -= size
	window.bytes = min(window.bytes+by.bytes-size, math.MaxUint32)
	return window, taken
}

// firstWindow is the window that SUB asks for; (0, 0) stands for the default.
func (s *Sessions) firstWindow(count uint16, bytes uint32) credit {
	if count == 0 && bytes == 0 {
		return credit{uint32(s.cfg.CreditCount), uint64(s.cfg.CreditBytes)}
	}
	return credit{uint32(count), uint64(bytes)}
}
