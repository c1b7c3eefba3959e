// Package explore checks the protocol between a Client and its store by exhaustive search
// within small bounds: two Clients, one resource, a few messages that may be late, lost or
// doubled, and a clock. The store is package driver/model itself. The Client is a copy of its
// rules without goroutines. A failure comes with the shortest history that leads to it.
package explore
