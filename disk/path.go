package disk

import "strings"

// ValidPath reports whether path keeps invariant 8. The empty path, which names
// the root, is not valid here: only List and SyncDir take it.
func ValidPath(path string) bool {
	for rest, more := path, true; more; {
		var element string
		element, rest, more = strings.Cut(rest, "/")
		if element == "" || element == "." || element == ".." {
			return false
		}
	}
	return strings.IndexByte(path, 0) < 0
}

// Parent gives the directory that path is in, "" for the root.
func Parent(path string) string {
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		return path[:i]
	}
	return ""
}
