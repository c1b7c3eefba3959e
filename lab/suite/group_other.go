//go:build !unix

package main

import (
	"context"
	"os/exec"
)

// group leaves the command as it is: where there are no process groups, what it has
// started may outlive it.
func group(context.Context, *exec.Cmd) (ended func()) { return func() {} }

// processorTime is not known there.
func processorTime() string { return "" }
