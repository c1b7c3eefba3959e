// Package eslock races three kinds of programs for documents of one index (make interop): old
// programs with es-distributed-lock, programs with its drop-in, and Holdfast's own Client on
// package eslock. Only compatible locks may be held at the same time. The package has tests
// only.
package eslock
