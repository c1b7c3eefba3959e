package main

import (
	"os"
	"regexp"

	"github.com/rogpeppe/go-internal/testscript"
)

// prints NAME stdout|stderr REGEXP waits until what the process has printed there
// matches.
func prints(ts *testscript.TestScript, _ bool, args []string) {
	p := named(ts, args[0])
	f := p.stdout
	if args[1] == "stderr" {
		f = p.stderr
	}
	wanted := regexp.MustCompile(args[2])
	until(ts, "no output that matches "+args[2], func() bool {
		text, err := os.ReadFile(f.Name())
		ts.Check(err)
		return wanted.Match(text)
	})
}
