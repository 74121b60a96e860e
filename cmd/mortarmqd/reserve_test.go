package main

import (
	"testing"

	"github.com/mortarmq/mortarmq/node/config"
)

// Goal: a reserve of 0 keeps nothing free, in either form, and is not taken for
// the default.
func TestReserveOfNothing(t *testing.T) {
	for text, want := range map[string]config.Reserve{
		"0":         {Percent: -1, Bytes: -1},
		"0%":        {Percent: -1, Bytes: -1},
		"0%,10GiB":  {Percent: -1, Bytes: -1},
		"10%,10GiB": {Percent: 10, Bytes: 10 << 30},
		"5%":        {Percent: 5, Bytes: -1},
	} {
		r, err := config.ParseReserve(text)
		if err != nil || storeReserve(r) != want {
			t.Errorf("%s: %+v %v, want %+v", text, storeReserve(r), err, want)
		}
	}
}
