//go:build linux

package main

import (
	"context"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/holdfast-go/holdfast"
)

func TestTerminalKeys(t *testing.T) {
	for _, key := range []struct {
		name, key string
		status    int
	}{{"INT", ctrlC, 130}, {"QUIT", ctrlBackslash, 131}} {
		t.Run(key.name, func(t *testing.T) {
			t.Run("handled", func(t *testing.T) {
				inShells(t, func(c *console) {
					c.enter("holdfast run r -- " + c.command(counting(key.name)))
					c.expectLine("counting")
					c.press(key.key)
					c.expectLine("got " + key.name + " 1")
					c.held("r")
					c.goOn()
					c.expectLine("total " + key.name + " 1")
					c.expect(prompt)
					c.status(7)
					c.free("r")
				})
			})
			t.Run("fatal", func(t *testing.T) {
				inShells(t, func(c *console) {
					c.enter("holdfast run r -- " + c.command("exec sleep 100"))
					pid := c.pid()
					c.press(key.key)
					c.expect(prompt)
					c.status(key.status)
					c.dead(pid)
					c.free("r")
					c.never("holdfast:")
				})
			})
			t.Run("while waiting", func(t *testing.T) {
				inShells(t, func(c *console) {
					c.another(func(ctx context.Context, client *holdfast.Client) {
						hold, err := client.Lock(ctx, "r", nil)
						c.check(err)
						c.enter("holdfast run r -- " + c.command("") + " & wait=$!; echo wrapper $!.; fg")
						wrapper := c.number(`wrapper (\d+)\.`)
						c.until("waiting", func() bool { return opens(wrapper, filepath.Join(c.dir, "locks.db")) })
						c.press(key.key)
						c.expectLine(`holdfast: stopped by a signal .* the command was not run`)
						c.expect(prompt)
						c.status(key.status)
						c.check(hold.Unlock(ctx))
					})
					c.free("r")
					c.never("pid")
				})
			})
		})
	}
}

// A loop ends with the command that is interrupted, typed or in a script, whether the
// command has used the terminal or not.
func TestInterruptEndsLoop(t *testing.T) {
	for name, script := range map[string]string{"computes": "exec sleep 100", "reads": "read x"} {
		t.Run(name, func(t *testing.T) {
			t.Run("typed", func(t *testing.T) {
				inShells(t, func(c *console) {
					c.enter("for i in 1 2 3; do holdfast run r -- " + c.command(script) + "; done")
					pid := c.pid()
					c.press(ctrlC)
					c.expect(prompt)
					c.status(130)
					c.dead(pid)
					c.free("r")
					c.pidsSaid(1)
				})
			})
			for _, shell := range []string{"bash", "dash"} {
				t.Run("script of "+shell, func(t *testing.T) {
					if _, err := exec.LookPath(shell); err != nil {
						t.Skip(err)
					}
					inShells(t, func(c *console) {
						c.file("loop", "for i in 1 2 3; do holdfast run r -- "+c.command(script)+"; done\n")
						c.enter(shell + " loop")
						pid := c.pid()
						if name == "reads" {
							c.until("in front", func() bool { return c.front() == pid })
						}
						c.press(ctrlC)
						c.expect(prompt)
						c.status(130)
						c.dead(pid)
						c.free("r")
						c.pidsSaid(1)
					})
				})
			}
		})
	}
}
