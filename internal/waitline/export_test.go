package waitline

// Kept returns the numbers of lines in use, of keys, and of empty lines for reuse.
func (ls *Lines) Kept() (used, free int) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	used = len(ls.lines) - len(ls.free) + len(ls.byKey)
	for _, l := range ls.free {
		used += len(l.waiters)
	}
	return used, len(ls.free)
}
