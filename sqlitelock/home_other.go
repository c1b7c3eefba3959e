//go:build !unix

package sqlitelock

// ownedByOther returns false, because this system has no root user.
func ownedByOther(string) bool { return false }
