// Package examples has programs as users of Holdfast write them, one in each folder. Its
// tests start two of each, kill the one that works, and see that the other goes on. The
// program first, of the README, is just run.
package examples
