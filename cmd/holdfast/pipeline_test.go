//go:build linux

package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestPipeline(t *testing.T) {
	inShells(t, "of data", func(c *console) {
		c.enter("holdfast run r -- sh -c 'echo data' | sed s/d/D/")
		c.expectLine("Data")
		c.expect(prompt)
		c.enter("echo data | holdfast run r -- sed s/d/D/")
		c.expectLine("Data")
		c.expect(prompt)
		c.enter("echo data | holdfast run r -- sed s/d/D/ | holdfast run q -- sed s/t/T/")
		c.expectLine("DaTa")
		c.expect(prompt)
		c.enter("echo data | holdfast run r -- sh -c 'read a; read b </dev/tty; echo $a and $b'")
		c.enter("text")
		c.expectLine("data and text")
		c.expect(prompt)
	})
	// As a pager does, while the command that fills the pipe goes on.
	for name, first := range map[string]string{
		"before the command": "",
		"after the command":  "read x </dev/tty; echo got $x >&2\n",
	} {
		inShells(t, "other reads the terminal "+name, func(c *console) {
			c.file("source", "echo pid $$. >&2\n"+first+"echo data\n"+pause+"\n")
			c.file("pager", "read data\nread x </dev/tty\necho paged $data $x\nread x </dev/tty\necho paged $x\necho >go\ncat >/dev/null\n")
			c.enter("holdfast run r -- sh source | sh pager")
			pid := c.pid()
			if first != "" {
				c.reads("zero")
			}
			c.enter("one")
			c.expectLine("paged data one")
			c.never("(?i)tty (in|out)put")
			c.suspend(pid, c.wrapper(pid))
			c.held("r")
			c.enter("fg")
			c.until("running", func() bool { return state(pid) != "T" })
			c.enter("two")
			c.expectLine("paged two")
			c.expect(prompt)
			// The pager was stopped for its first read, for a moment. dash remembers
			// that, and may name it as the reason when all have stopped for the key.
			c.never("(?is)tty (in|out)put.*tty (in|out)put")
			c.free("r")
		})
	}
	inShells(t, "other sets the terminal's modes", func(c *console) {
		// The pager was stopped for a moment. dash remembers that, and if run ends before
		// the pager it takes the whole job for stopped.
		c.file("source", "read x </dev/tty\necho got $x >&2\necho data\n"+pause+"\nwhile kill -0 $(cat pid) 2>/dev/null; do sleep 0.02; done\n")
		c.file("pager", "echo $$ >pid\nread data\nstty -echoe </dev/tty\necho set\necho >go\n")
		c.enter("holdfast run r -- sh source | sh pager")
		c.reads("one")
		c.expectLine("set")
		c.expect(prompt)
		c.never("(?i)tty (in|out)put")
	})
	inShells(t, "interrupted", func(c *console) {
		c.file("member", "trap 'echo INT >>'$1 INT\n: >$1\n"+listen+"\n")
		c.enter("sh member a | holdfast run r -- sh member b | sh member c")
		told := func(want string) func() bool {
			return func() bool {
				for _, name := range []string{"a", "b", "c"} {
					if text, err := os.ReadFile(filepath.Join(c.dir, name)); err != nil || string(text) != want {
						return false
					}
				}
				return true
			}
		}
		c.until("running", told(""))
		c.press(ctrlC)
		c.until("interrupted", told("INT\n"))
		c.goOn()
		c.expect(prompt)
		c.status(0)
		if !told("INT\n")() {
			c.Error("one was interrupted twice")
		}
		c.free("r")
	})
}

// A script's other processes may want the terminal as well.
func TestScriptBeside(t *testing.T) {
	inShells(t, "", func(c *console) {
		c.file("script", "holdfast run r -- "+c.command(pause+"; echo went")+" &\nread x\necho got $x\necho >go\nwait\n")
		c.enter("sh script")
		c.pid()
		c.reads("one")
		c.expectLine("went")
		c.expect(prompt)
		c.never("(?i)stopped")
	})
}
