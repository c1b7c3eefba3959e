//go:build !unix

package sqlitelock

// isOfOther returns false, because this system has no root user.
func isOfOther(string) bool { return false }
