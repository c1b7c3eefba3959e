//go:build unix && !linux && !darwin

package terminal

func parent(int) (int, bool) { return 0, false }

func members(int) ([]int, bool) { return nil, false }
