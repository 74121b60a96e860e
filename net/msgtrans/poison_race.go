//go:build race

package msgtrans

// poison overwrites a message's buffer when its borrowing ends.
const poison = true
