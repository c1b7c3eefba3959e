// Package mongolock races three kinds of programs on one collection (make interop): old
// programs with mongo-lock, programs with its drop-in, and Holdfast's own Client. Only
// compatible locks may be held at the same time. The package has tests only.
package mongolock
