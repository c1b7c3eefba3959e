//go:build unix && !linux

package terminal

func parent(int) int { return 0 }
