//go:build !unix

package main

import (
	"context"
	"os/exec"
)

// group leaves the command as it is: without process groups, its descendants may outlive it.
func group(context.Context, *exec.Cmd) (ended func()) { return func() {} }

// processorTime is not available on this system.
func processorTime() string { return "" }
