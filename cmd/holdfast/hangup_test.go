//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestHangUp(t *testing.T) {
	const script = `trap 'n=$((n+1)); echo $n >>hups' HUP
n=0
: >runs
` + listen + "\n: >done\n"
	told := func(c *console, pid, wrapper int) {
		c.until("told", func() bool { return c.exists("hups") })
		<-c.ended // by then all have told
		c.goOn()
		c.dead(wrapper)
		hups, err := os.ReadFile(filepath.Join(c.dir, "hups"))
		c.check(err)
		if string(hups) != "1\n" {
			c.Errorf("the command was told %q", hups)
		}
		if !c.exists("done") {
			c.Error("the command did not run to its end")
		}
		c.free("r")
	}
	for name, line := range map[string]string{
		"foreground":        "holdfast run r -- %s",
		"background":        "holdfast run r -- %s &",
		"script":            "sh -c 'holdfast run r -- %s; :'",
		"pipeline":          "holdfast run r -- %s | sleep 100",
		"that left the tty": "holdfast run r -- %s </dev/null >/dev/null 2>&1",
	} {
		inShells(t, name, func(c *console) {
			c.enter(fmt.Sprintf(line, c.command("echo $$ >pid;"+script)))
			c.until("running", func() bool { return c.exists("runs") })
			pid := c.saved("pid")
			wrapper := c.wrapper(pid)
			c.hangUp()
			if name == "background" && c.isDash() {
				// It leaves its background jobs alone when it dies of the hang-up.
				<-c.ended
				c.goOn()
				c.over(wrapper)
				return
			}
			told(c, pid, wrapper)
		})
	}
	t.Run("without a shell", func(t *testing.T) {
		c := open(t, "holdfast", "run", "r", "--", "sh", "-c", "echo pid $$.;"+script)
		pid := c.pid()
		wrapper := c.wrapper(pid)
		c.until("running", func() bool { return c.exists("runs") })
		c.hangUp()
		c.until("told", func() bool { return c.exists("hups") })
		c.goOn()
		told(c, pid, wrapper)
	})
	inShells(t, "fatal", func(c *console) {
		pid := c.run("holdfast run r -- %s", "exec sleep 100")
		wrapper := c.wrapper(pid)
		c.hangUp()
		c.over(pid, wrapper)
	})
	inShells(t, "while stopped", func(c *console) {
		pid := c.run("holdfast run r -- %s", "exec sleep 100")
		wrapper := c.wrapper(pid)
		c.suspend(wrapper)
		c.hangUp()
		c.over(pid, wrapper)
	})
	// The shell has taken the terminal back, so it tells the command itself.
	inShells(t, "in the background since it was stopped", func(c *console) {
		if c.isDash() {
			c.Skip("it leaves its background jobs alone")
		}
		pid := c.run("holdfast run r -- %s", "trap 'echo went on.' CONT; echo trapped.; "+listen)
		c.expect("trapped")
		wrapper := c.wrapper(pid)
		c.check(syscall.Kill(wrapper, syscall.SIGSTOP))
		c.expect(prompt)
		c.enter("bg")
		c.expect("went on") // so run knows that it was stopped
		c.hangUp()
		c.over(pid, wrapper)
	})
	// The kernel tells the group in front, which is not that of the shell.
	inShells(t, "a shell behind its job", func(c *console) {
		if c.isDash() {
			c.Skip("it waits for a job that ignores the hang-up")
		}
		shell := c.inner("holdfast run r -- ")
		c.enter(c.command("trap '' HUP; " + listen))
		job := c.pid()
		c.until("in front", func() bool { return c.front() == job })
		wrapper := c.wrapper(shell)
		c.hangUp()
		c.dead(shell)
		c.goOn()
		c.over(wrapper, job)
	})
	inShells(t, "nohup", func(c *console) {
		c.enter("nohup holdfast run r -- sh -c 'echo $$ >pid; : >runs; " + pause + "; : >done' >out 2>&1")
		c.until("running", func() bool { return c.exists("runs") })
		pid := c.saved("pid")
		wrapper := c.wrapper(pid)
		c.hangUp()
		<-c.ended
		c.held("r")
		c.goOn()
		c.dead(wrapper)
		if !c.exists("done") {
			c.Error("the command did not run to its end")
		}
		c.free("r")
	})
}
