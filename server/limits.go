package server

import "sync"

// limits counts what goes on for long. Renewals and releases are not among it: they are
// never refused because others wait or look.
type limits struct {
	mu      sync.Mutex
	waits   int
	watches int
	lists   int
	listsOf map[string]int

	renewals, releases *pool // of large bodies
}

func newLimits() *limits {
	return &limits{listsOf: make(map[string]int), renewals: newPool(), releases: newPool()}
}

// take adds 1 to the count unless it has reached most. The caller gives it back.
func (l *limits) take(count *int, most int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if *count >= most {
		return false
	}
	*count++
	return true
}

func (l *limits) give(count *int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	*count--
}

// takeList is take for a list. Callers without a name are all the same one, which has no
// limit of its own.
func (l *limits) takeList(name string, most, mostOfOne int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lists >= most || name != "" && l.listsOf[name] >= mostOfOne {
		return false
	}
	l.lists++
	l.listsOf[name]++
	return true
}

func (l *limits) giveList(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lists--
	if l.listsOf[name]--; l.listsOf[name] == 0 {
		delete(l.listsOf, name)
	}
}
