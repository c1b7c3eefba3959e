package waitline

// Kept returns how many lines and keys are in use, and how many empty lines are kept.
func (ls *Lines) Kept() (used, free int) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	used = len(ls.lines) - len(ls.free) + len(ls.byKey)
	for _, l := range ls.free {
		used += len(l.waiters)
	}
	return used, len(ls.free)
}
