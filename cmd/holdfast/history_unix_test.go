package main

import (
	"regexp"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// shows RESOURCE PATTERN waits until the history of the resource matches.
func shows(ts *testscript.TestScript, _ bool, args []string) {
	matches(ts, args[1], "holdfast", "history", "--store", ts.Getenv("URL"), args[0])
}

// showsMetric TEXT waits until the metrics have it.
func showsMetric(ts *testscript.TestScript, _ bool, args []string) {
	matches(ts, regexp.QuoteMeta(args[0]), "ask", ts.Getenv("URL"), "/metrics")
}

func matches(ts *testscript.TestScript, pattern string, command ...string) {
	wanted := regexp.MustCompile(pattern)
	until(ts, strings.Join(command, " ")+" does not show "+pattern, func() bool {
		ts.Check(ts.Exec(command[0], command[1:]...))
		return wanted.MatchString(ts.ReadFile("stdout"))
	})
}
