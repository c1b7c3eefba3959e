// Package queue tests many waiters for one resource. It simulates Clients in the queue of a
// store, over a network that has latency and loses signals, in the time of testing/synctest. It
// also runs real commands that wait in each store, and checks the order in which they get the
// lock. It has tests only.
package queue
