//go:build !race

package msgtrans

// poison overwrites a message's buffer when its borrowing ends: in race builds.
const poison = false
