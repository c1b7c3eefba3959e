// Package examples has example programs, one in each folder. Its tests start two instances of
// each, kill the working one, and check that the other takes over. The README shows the
// program first, which is only run.
package examples
