//go:build !unix

package sqlitelock

// isOfOther returns false: this system has no root.
func isOfOther(string) bool { return false }
