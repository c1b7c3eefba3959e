// Package leaktest makes a test binary fail if it leaks goroutines. It is for the released
// modules, whose users should not download a test library. The module lab uses goleak.
package leaktest

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// patience is how long goroutines may take to end after the last test.
const patience = 2 * time.Second

// Main runs the tests and exits. A goroutine that the tests started and that does not end
// makes them fail.
func Main(m interface{ Run() int }) {
	code := m.Run()
	if left := leaked(patience); code == 0 && left != "" {
		fmt.Fprintf(os.Stderr, "goroutines are left behind:\n\n%s\n", left)
		code = 1
	}
	os.Exit(code)
}

// leaked returns the stacks of the other goroutines that do not end in time.
func leaked(within time.Duration) string {
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		left := others()
		if left == "" || time.Since(began) > within {
			return left
		}
	}
}

// others returns the stacks of all goroutines except the caller's and goroutines of the
// standard library that never end.
func others() string {
	buf := make([]byte, 1<<20)
	stacks := strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n")
	var left []string
	for _, stack := range stacks[1:] { // the first one is the caller's
		if !strings.Contains(stack, "\nos/signal.loop") && !strings.Contains(stack, "\nruntime.ReadTrace") {
			left = append(left, stack)
		}
	}
	return strings.Join(left, "\n\n")
}
