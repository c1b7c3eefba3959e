package server

import "sync"

// limits counts what goes on for long. Renewals and releases are not among it: they are
// never refused because others wait or look.
type limits struct {
	mu      sync.Mutex
	opts    *Options
	waits   int
	watches int
	lists   int
	listsOf map[string]int

	renewals, releases *pool // of large bodies
}

func (l *limits) init(o *Options) {
	l.opts, l.listsOf, l.renewals, l.releases = o, make(map[string]int), newPool(), newPool()
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
func (l *limits) takeList(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lists >= l.opts.MaxLists || name != "" && l.listsOf[name] >= l.opts.MaxListsOfCaller {
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
