//go:build linux

package main

import (
	"context"
	"fmt"
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
		inShells(t, key.name+" handled", func(c *console) {
			c.enter("holdfast run r -- " + c.command(counting(key.name)))
			c.expectLine("counting")
			c.press(key.key)
			c.expectLine("got " + key.name + " 1")
			c.held("r")
			c.goOn()
			c.expectLine("total " + key.name + " 1")
			c.ends(7)
		})
		inShells(t, key.name+" fatal", func(c *console) {
			pid := c.run("holdfast run r -- %s", "exec sleep 100")
			c.press(key.key)
			c.expect(prompt)
			c.status(key.status)
			c.over(pid)
			c.never("holdfast:")
		})
		inShells(t, key.name+" while waiting", func(c *console) {
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
	}
}

// A loop ends with the command that is interrupted, typed or in a script, whether the
// command has used the terminal or not.
func TestInterruptEndsLoop(t *testing.T) {
	for name, script := range map[string]string{"computes": "exec sleep 100", "reads": "read x"} {
		for _, shell := range []string{"", "bash", "dash"} {
			inShells(t, fmt.Sprintf("%s, in a script of %q", name, shell), func(c *console) {
				loop := "for i in 1 2 3; do holdfast run r -- " + c.command(script) + "; done"
				if shell != "" {
					if _, err := exec.LookPath(shell); err != nil {
						c.Skip(err)
					}
					c.file("loop", loop+"\n")
					loop = shell + " loop"
				}
				c.enter(loop)
				pid := c.pid()
				if name == "reads" && shell != "" {
					c.until("in front", func() bool { return c.front() == pid })
				}
				c.press(ctrlC)
				c.expect(prompt)
				c.status(130)
				c.over(pid)
				c.pidsSaid(1)
			})
		}
	}
}

// When the main process has died of the key, or has caught it and says so by its status, run takes
// the terminal back and waits for what ignores the key. Then the key is for run: TERM for the rest,
// and at last KILL.
func TestInterruptWhileRestLives(t *testing.T) {
	for name, script := range map[string]string{
		"dies":    "sh deaf & exec sleep 100",
		"catches": "trap 'exit 130' INT; sh deaf & while :; do sleep 0.01; done",
	} {
		inShells(t, name, func(c *console) {
			shell := c.front()
			c.file("deaf", "trap 'echo told' TERM; trap '' INT QUIT; echo ready; "+listen)
			pid := c.run("holdfast run r -- %s", script)
			c.expectLine("ready")
			c.press(ctrlC)
			c.expectLine(`holdfast: "sh" has ended with status 130. The lock of "r" is held until what it has left has ended: .*`)
			c.dead(pid)
			c.held("r")
			c.never("told")
			c.until("in front", func() bool { return c.front() != pid })
			c.press(ctrlZ)
			c.press(ctrlC)
			c.expectLine("told")
			c.held("r")
			c.press(ctrlC)
			c.expect(prompt)
			c.status(130)
			c.inFront(shell)
			c.free("r")
		})
	}
}
