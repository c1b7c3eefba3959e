//go:build !linux && !darwin

package sqlitelock

// networkFS checks nothing: this system is not known well enough.
func networkFS(string) string { return "" }

// isMountPoint: only Linux mounts single files.
func isMountPoint(string) bool { return false }
