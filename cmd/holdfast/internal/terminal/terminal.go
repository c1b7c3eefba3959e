// Package terminal hands the terminal to the process group of a command and takes
// it back, as shells do for their jobs: so that the command can read it and is
// who gets its signals. What the command is, and when it may run, is not its
// business.
package terminal
