// Package history keeps who had which resource, from when to when, and how that ended. A server
// notes what passes through it at once, and what others do as looks at the store show it. A hold
// that is shorter than the time between two looks, and that another server or a program has
// taken, is not in it.
//
// Package historyfile keeps a history in a SQLite file:
//
//	log, err := historyfile.Open(ctx, "/var/lib/holdfast/history.db", nil)
//
// A Log never delays a lock. Its storage may hang or be full: then changes are dropped, and
// counted. It has no hold IDs and no lock IDs.
package history
