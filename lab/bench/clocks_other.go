//go:build !unix

package main

import (
	"errors"
	"runtime"
	"time"
)

var errNotHere = errors.New("this cannot be measured on " + runtime.GOOS)

func monotonic() (time.Duration, error) { return 0, errNotHere }

func processorTime() (time.Duration, error) { return 0, errNotHere }
