// Package adapters tests package adapt with the libraries that it is for: in two processes
// on a real store, one of which is killed while it works. It has tests only.
package adapters
