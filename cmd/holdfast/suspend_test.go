//go:build linux

package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/proc"
)

func TestSuspend(t *testing.T) {
	const script = "read x; echo got $x; read x; echo got $x; exit 3"
	inShells(t, "fg", func(c *console) {
		shell := c.front()
		pid := c.run("holdfast run r -- %s", script)
		c.reads("one")
		token := c.token("r")
		for range 2 {
			c.suspend(pid, c.wrapper(pid))
			c.inFront(shell)
			c.held("r")
			c.foreground(pid)
		}
		c.reads("two")
		c.expect(prompt)
		c.status(3)
		if token == 0 || c.token("r") != 0 {
			c.Errorf("token %d, then %d", token, c.token("r"))
		}
	})
	inShells(t, "bg, which reads", func(c *console) {
		pid := c.run("holdfast run r -- %s", pause+"; echo went; "+script)
		token := c.token("r")
		wrapper := c.wrapper(pid)
		c.suspend(pid, wrapper)
		c.enter("bg")
		c.expect(prompt)
		c.goOn()
		c.expectLine("went")
		// Now it wants to read.
		c.suspended()
		c.stopped(pid, wrapper)
		c.foreground(pid)
		if c.token("r") != token {
			c.Errorf("token %d, then %d", token, c.token("r"))
		}
		c.reads("one")
		c.reads("two")
		c.ends(3)
	})
	inShells(t, "killed", func(c *console) {
		pid := c.run("holdfast run r -- %s", script)
		c.suspend(c.wrapper(pid))
		c.enter("kill %1; kill -CONT %1; wait %1")
		c.expect(prompt)
		c.over(pid)
	})
}

// The lock goes to another while the command is stopped: it must never run again.
func TestSuspendBeyondTTL(t *testing.T) {
	inShells(t, "", func(c *console) {
		shell, modes := c.front(), c.modes()
		pid := c.run("holdfast run --ttl 2s r -- %s", "stty raw; while :; do echo x >>log; done")
		c.until("raw and busy", func() bool { return c.modes() != modes && c.exists("log") })
		c.check(syscall.Kill(pid, syscall.SIGTSTP)) // the keys are but bytes to it
		c.expect(prompt)
		c.stopped(pid)
		wrapper := c.wrapper(pid)
		c.stopped(wrapper)
		size := func() int64 {
			info, err := os.Stat(filepath.Join(c.dir, "log"))
			c.check(err)
			return info.Size()
		}
		before := size()
		c.another(func(ctx context.Context, client *holdfast.Client) {
			hold, err := client.Lock(ctx, "r", nil)
			c.check(err)
			c.dead(pid)
			c.enter("fg")
			c.expectLine(`holdfast: the lock of "r" was lost while "sh" ran: .* run it again.*`)
			c.expect(prompt)
			c.check(hold.Unlock(ctx))
		})
		c.status(76)
		if after := size(); after != before {
			c.Errorf("the command ran again: it wrote %d bytes", after-before)
		}
		c.inFront(shell)
		if c.modes() != modes {
			c.Error("the modes of the terminal are not restored")
		}
		c.free("r")
	})
}

// Nobody could continue what the key stops.
func TestSuspendWithoutShell(t *testing.T) {
	for name, program := range map[string][]string{
		"alone":     {"holdfast", "run", "r", "--", "sh", "command"},
		"in script": {"sh", "-c", "holdfast run r -- sh command; exit $?"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			program[len(program)-1] = strings.Replace(program[len(program)-1], "command", filepath.Join(dir, "command"), 1)
			script := "echo pid $$.; read x; echo got $x; read x; echo got $x; exit 3\n"
			check(t, os.WriteFile(filepath.Join(dir, "command"), []byte(script), 0o600))
			c := open(t, program...)
			c.pid()
			c.reads("one")
			token := c.token("r")
			c.press(ctrlZ)
			c.reads("two")
			if token == 0 {
				c.Error("it holds nothing")
			}
			c.exit(3)
			c.free("r")
		})
	}
}

// A shell ignores the key while it waits for a substitution, and would not notice that
// its child has stopped.
func TestSuspendIgnored(t *testing.T) {
	for name, script := range map[string]string{"reads": "read x; echo got $x", "beside the shell": pause + "; echo went"} {
		inShells(t, name, func(c *console) {
			c.inner("") // a shell that is another shell's job
			pid := c.run("y=$(holdfast run --ttl 3s r -- %s >&2)", script)
			if name == "reads" {
				c.until("in front", func() bool { return c.front() == pid })
			}
			c.press(ctrlZ)
			c.renewed("r", 2)
			if name == "reads" {
				c.reads("one")
			} else {
				c.goOn()
				c.expectLine("went")
			}
			c.expect(prompt)
			c.free("r")
		})
	}
}

// The group of run has no number in its PID namespace, nor has the shell's.
func TestGroupOutsideNamespace(t *testing.T) {
	if err := exec.CommandContext(t.Context(), "unshare", "-rpf", "true").Run(); err != nil {
		t.Skip("needs unshare:", err)
	}
	inShells(t, "", func(c *console) {
		shell := c.front()
		c.enter("unshare -rpf holdfast run r -- " + c.command("read x </dev/tty; echo unreached") + " &")
		c.pid()
		c.until("over", func() bool { return c.token("r") == 0 })
		c.inFront(shell)
		c.enter("wait; echo here")
		c.expectLine("here")
		c.never("unreached")
	})
	inShells(t, "in front", func(c *console) {
		c.file("script", "holdfast run r -- "+c.command("read x </dev/tty; echo unreached")+"\nread x; echo got $x\n")
		c.enter("unshare -rpf sh script")
		c.pid()
		c.reads("one")
		c.expect(prompt)
		c.free("r")
		c.never("unreached")
	})
}

func TestBackground(t *testing.T) {
	inShells(t, "reads", func(c *console) {
		pid := c.run("holdfast run r -- %s &", "read x; echo got $x; exit 3")
		wrapper := c.wrapper(pid)
		c.suspended()
		c.stopped(pid, wrapper)
		c.foreground(pid)
		c.reads("hello")
		c.ends(3)
	})
	// A shell that brings what runs to the front need not tell it.
	inShells(t, "brought to the front before it reads", func(c *console) {
		pid := c.run("holdfast run r -- %s &", pause+"; read x; echo got $x; exit 3")
		group := c.groupOf(c.wrapper(pid))
		c.foreground(group, pid)
		c.goOn()
		c.reads("hello")
		c.ends(3)
	})
	inShells(t, "interrupted in front", func(c *console) {
		pid := c.run("holdfast run r -- %s &", counting("INT"))
		group := c.groupOf(c.wrapper(pid))
		c.expectLine("counting")
		c.foreground(group, pid)
		c.press(ctrlC)
		c.expectLine("got INT 1")
		c.goOn()
		c.expectLine("total INT 1")
		c.expect(prompt)
		c.status(7)
	})
	// The modes that stty sets are for the job in the foreground.
	inShells(t, "suspended in front", func(c *console) {
		pid := c.run("holdfast run r -- %s &", "echo runs; exec sleep 100")
		c.expectLine("runs")
		wrapper := c.wrapper(pid)
		group := c.groupOf(wrapper)
		c.foreground(group, pid)
		// The shell continues what it has brought to the front. The system then forgets a
		// stop that was not noticed yet: whoever sees that presses the key again.
		var pressed time.Time
		c.until("stopped", func() bool {
			if state(pid) != "T" && time.Since(pressed) > 2*time.Second {
				pressed = time.Now()
				c.press(ctrlZ)
			}
			return state(pid) == "T"
		})
		c.expect(prompt)
		c.stopped(wrapper)
		c.enter("fg")
		c.until("running", func() bool { return state(pid) == "S" && state(wrapper) == "S" })
		c.press(ctrlC)
		c.ends(130)
	})
}

// What the shell takes for its job is the script, with all that it started.
func TestScript(t *testing.T) {
	inShells(t, "", func(c *console) {
		shell := c.front()
		pid := c.script("holdfast run r -- %s\nread x\necho after $x\n", "read x; echo got $x; read x; echo got $x")
		c.reads("one")
		wrapper := c.wrapper(pid)
		p, _ := proc.Read(wrapper)
		token := c.token("r")
		for range 2 {
			c.suspend()
			c.inFront(shell)
			c.stopped(pid, wrapper, p.Parent)
			c.held("r")
			c.foreground(pid)
		}
		if c.token("r") != token {
			c.Error("it is another hold now")
		}
		c.reads("two")
		c.enter("three")
		c.expectLine("after three")
		c.ends(0)
	})
}

// A child of the command stops at the key, and the command does not, because it handles
// the key itself.
func TestStoppedChild(t *testing.T) {
	inShells(t, "", func(c *console) {
		c.file("child", "echo child $$.\n"+pause+"\necho went\n")
		pid := c.script("holdfast run r -- %s\necho after\n", "trap : TSTP; sh child; echo done")
		child := c.number(`child (\d+)\.`)
		c.press(ctrlZ)
		c.expect(prompt)
		c.until("stopped", func() bool { return state(child) == "T" })
		if state(pid) == "T" {
			c.Error("the command has stopped, too")
		}
		c.enter("fg")
		c.until("going on", func() bool { return state(child) != "T" })
		c.goOn()
		c.expectLine("went")
		c.expectLine("after")
		c.expect(prompt)
		c.free("r")
	})
}

// A command that is stopped from elsewhere keeps its lock.
func TestStopFromElsewhere(t *testing.T) {
	for name, line := range map[string]string{
		"no terminal": "setsid holdfast run --ttl 3s r -- %s &",
		"background":  "holdfast run --ttl 3s r -- %s &",
		"script":      "sh -c 'holdfast run --ttl 3s r -- %s; :'",
	} {
		inShells(t, name, func(c *console) {
			if _, err := exec.LookPath("setsid"); err != nil && name == "no terminal" {
				c.Skip(err)
			}
			pid := c.run(line, pause+"; echo went")
			token := c.token("r")
			wrapper := c.wrapper(pid)
			c.check(syscall.Kill(pid, syscall.SIGSTOP))
			c.stopped(pid)
			c.renewed("r", 2)
			if s := state(wrapper); s == "T" {
				c.Error("the wrapper is stopped")
			}
			if state(pid) != "T" || c.token("r") != token {
				c.Errorf("state %s, token %d, then %d", state(pid), token, c.token("r"))
			}
			c.goOn()
			c.check(syscall.Kill(pid, syscall.SIGCONT))
			c.expectLine("went")
			c.over(wrapper)
		})
	}
}

// A command that is stopped hears nothing, and yet it is to end.
func TestStoppedCommandIsEnded(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP} {
		inShells(t, sig.String(), func(c *console) {
			pid := c.run("holdfast run r -- %s &", "exec sleep 100")
			wrapper := c.wrapper(pid)
			c.check(syscall.Kill(pid, syscall.SIGSTOP))
			c.stopped(pid)
			c.check(syscall.Kill(wrapper, sig)) // which may not have heard of the stop yet
			c.over(wrapper, pid)
		})
		inShells(t, sig.String()+", then stopped", func(c *console) {
			const told = "trap 'echo told; kill -STOP $$; echo on; exit 5' TERM HUP; echo ready; "
			pid := c.run("holdfast run r -- %s &", told+listen)
			c.expectLine("ready")
			c.check(syscall.Kill(c.wrapper(pid), sig))
			c.expectLine("told")
			c.expectLine("on")
			c.over(pid)
		})
	}
}

// Nobody can bring to the front what a shell without job control has left behind.
// As such a process may not read the terminal, one that is stopped for it is hung
// up on.
func TestAbandonedReader(t *testing.T) {
	inShells(t, "told", func(c *console) {
		pid := c.run("(holdfast run r -- %s &)", "read x </dev/tty; echo unreached")
		c.over(pid)
		c.never("unreached")
	})
	// The shell has waited for its child, and takes the terminal back a moment later.
	inShells(t, "before the shell has the terminal", func(c *console) {
		shell := c.program.Process.Pid
		c.enter("(" + pause + "; holdfast run r -- " + c.command("read x </dev/tty; echo unreached") + " &)")
		// It sleeps: bash lets a job begin only after it has given it the terminal.
		c.until("waiting", func() bool {
			return len(proc.Children(shell)) > 0 && c.front() != shell && state(shell) == "S"
		})
		group := c.front()
		c.check(syscall.Kill(shell, syscall.SIGSTOP))
		c.goOn()
		pid := c.pid()
		c.dead(pid)
		if front := c.front(); front != group {
			c.Errorf("in front is %d, not the group %d of run", front, group)
		}
		c.check(syscall.Kill(shell, syscall.SIGCONT))
		c.free("r")
		c.never("unreached")
	})
	// A substitution is in the group of the shell, which is in front at the prompt.
	leaveBehind := func(c *console) {
		shell := c.front()
		pid := c.run("y=$( (holdfast run r -- %s >&2 &) )", pause+"; read x </dev/tty; echo unreached")
		wrapper := c.wrapper(pid)
		c.until("left behind", func() bool {
			p, _ := proc.Read(wrapper)
			parent, _ := proc.Read(p.Parent)
			return parent.Group != p.Group || p.Parent == shell
		})
		c.goOn()
		c.dead(pid, wrapper)
		c.inFront(shell)
		c.answers()
		c.free("r")
		c.never("unreached")
	}
	inShells(t, "by a substitution", leaveBehind)
	inShells(t, "by a shell in a shell", func(c *console) {
		c.inner("")
		leaveBehind(c)
	})
	inShells(t, "by a shell without job control", func(c *console) {
		if c.isDash() {
			c.Skip("it no longer keeps the terminal after set +m")
		}
		shell := c.front()
		c.enter("set +m; holdfast run r -- " + c.command("read x </dev/tty; echo unreached") + " &")
		c.dead(c.pid())
		c.inFront(shell)
		c.answers()
		c.free("r")
		c.never("unreached")
	})
	inShells(t, "deaf", func(c *console) {
		pid := c.run("(holdfast run r -- %s &)", "trap '' HUP; read x </dev/tty; echo unreached")
		wrapper := c.number(`holdfast: "sh" is stopped because it wants to use the terminal .* kill (\d+)`)
		c.stopped(pid)
		c.held("r")
		c.check(syscall.Kill(wrapper, syscall.SIGTERM))
		c.over(pid)
		c.never("unreached")
	})
}

// The shell has taken the terminal, which is not to be taken from it.
func TestShellKeepsTerminal(t *testing.T) {
	inShells(t, "", func(c *console) {
		shell := c.front()
		pid := c.run("holdfast run r -- %s", pause+"; echo went")
		wrapper := c.wrapper(pid)
		c.check(syscall.Kill(wrapper, syscall.SIGSTOP))
		c.expect(prompt)
		c.inFront(shell)
		c.check(syscall.Kill(wrapper, syscall.SIGCONT))
		c.goOn()
		c.expectLine("went")
		c.dead(wrapper)
		c.inFront(shell)
		c.enter("read x; echo got $x")
		c.reads("hello")
		c.free("r")
	})
}

// The shell has ended its job, a script, and taken the terminal back from the run that
// the script has left behind.
func TestScriptLeavesReader(t *testing.T) {
	inShells(t, "", func(c *console) {
		shell := c.front()
		pid := c.script("holdfast run r -- %s &\nuntil [ -e read ]; do sleep 0.02; done\n", "read x </dev/tty; echo got $x; : >read; "+pause+"; echo over")
		wrapper := c.wrapper(pid)
		c.reads("one")
		c.expect(prompt)
		c.goOn()
		c.expectLine("over")
		c.dead(wrapper)
		c.inFront(shell)
		c.answers()
		c.free("r")
	})
}

// The shell has taken the terminal from run, and given it to another job.
func TestOtherJobKeepsTerminal(t *testing.T) {
	for name, stop := range map[string]syscall.Signal{"TSTP": syscall.SIGTSTP, "STOP": syscall.SIGSTOP} {
		inShells(t, name, func(c *console) {
			shell := c.front()
			pid := c.run("holdfast run r -- %s", pause)
			wrapper := c.wrapper(pid)
			c.check(syscall.Kill(wrapper, stop))
			c.expect(prompt)
			c.enter("bg")
			c.expect(prompt)
			c.until("running", func() bool { return state(wrapper) == "S" && state(pid) == "S" })
			c.besideCat(shell, wrapper, c.goOn)
		})
	}
	inShells(t, "killed", func(c *console) {
		shell := c.front()
		c.enter("holdfast run r -- " + c.command("exec sleep 100"))
		wrapper := c.wrapper(c.pid())
		c.check(syscall.Kill(wrapper, syscall.SIGSTOP))
		c.expect(prompt)
		c.besideCat(shell, wrapper, func() {
			c.check(syscall.Kill(wrapper, syscall.SIGTERM))
			c.check(syscall.Kill(wrapper, syscall.SIGCONT))
		})
	})
}

// besideCat wants that cat keeps the terminal when end makes the wrapper end, in the
// background.
func (c *console) besideCat(shell, wrapper int, end func()) {
	c.Helper()
	c.enter("cat")
	c.until("in front", func() bool { return c.front() != shell })
	cat := c.front()
	end()
	c.dead(wrapper)
	if c.front() != cat {
		c.Error("the terminal was taken from cat")
	}
	c.enter("text")
	c.expectLine("text")
	c.press(ctrlD)
	c.expect(prompt)
	c.free("r")
}

// A command that is a shell gives the terminal to its own jobs. It dies while one of
// them has it.
func TestShellEnds(t *testing.T) {
	inShells(t, "", func(c *console) {
		c.file("script", "holdfast run r -- "+strings.Join(c.program.Args, " ")+"\nread x\necho after $x\n")
		c.enter("sh script")
		c.expect(prompt)
		c.enter("sh -c 'kill -KILL $PPID; " + pause + "'")
		c.enter("one")
		c.expectLine("after one")
		c.expect(prompt)
		c.goOn()
		c.free("r")
	})
}

// The parent of run has ended, but its group is still the shell's job.
func TestParentGone(t *testing.T) {
	inShells(t, "script", func(c *console) {
		c.file("script", "(holdfast run r -- "+c.command("read x </dev/tty; echo got $x; read x </dev/tty; echo got $x")+" &)\n"+pause+"\n")
		c.enter("sh script")
		pid := c.pid()
		c.reads("one")
		c.suspend(pid, c.wrapper(pid))
		c.held("r")
		c.foreground(pid)
		c.reads("two")
		c.goOn()
		c.expect(prompt)
		c.free("r")
	})
	inShells(t, "pipeline", func(c *console) {
		c.enter("sh -c 'holdfast run r -- " + c.command("read x </dev/tty; echo got $x") + " &' | cat")
		c.pid()
		c.reads("one")
		c.expect(prompt)
		c.free("r")
	})
}

// One run inside another is to it what a shell's job is to the shell.
func TestNested(t *testing.T) {
	for name, line := range map[string]string{
		"typed":  "holdfast run r -- holdfast run q -- %s",
		"script": "sh -c 'holdfast run r -- holdfast run q -- %s; exit $?'",
	} {
		inShells(t, name, func(c *console) {
			pid := c.run(line, "read x; echo got $x; read x; echo got $x; exit 3")
			inner := c.wrapper(pid)
			outer := c.wrapper(inner)
			c.reads("one")
			c.suspend(pid, inner, outer)
			c.held("r")
			c.held("q")
			c.foreground(pid)
			c.reads("two")
			c.ends(3)
			c.free("q")
		})
	}
}
