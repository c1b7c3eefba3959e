// Package terminal gives the terminal to the process group of a command and takes it
// back, as shells do for their jobs, so that the command can read it and gets its
// signals. Package job decides when.
package terminal
