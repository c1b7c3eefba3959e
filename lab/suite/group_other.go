//go:build !unix

package main

import "os/exec"

// group leaves the command as it is: where there are no process groups, what it has
// started may outlive it.
func group(*exec.Cmd) {}

// processorTime is not known there.
func processorTime() string { return "" }
