//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestTerminalInput(t *testing.T) {
	const script = "read x; echo got $x; exit 3"
	inShells(t, "", func(c *console) {
		shell := c.front()
		pid := c.run("holdfast run r -- %s", script)
		if front := c.front(); front != pid {
			c.Errorf("group %d is in front, want the command's, %d", front, pid)
		}
		c.reads("hello")
		c.expect(prompt)
		c.status(3)
		c.inFront(shell)
		c.free("r")
	})
	t.Run("alone", func(t *testing.T) {
		c := open(t, "holdfast", "run", "r", "--", "sh", "-c", script)
		c.reads("hello")
		c.exit(3)
		c.free("r")
	})
}

func TestModes(t *testing.T) {
	inShells(t, "raw keys are bytes", func(c *console) {
		modes := c.modes()
		c.enter("holdfast run r -- " + c.command("old=$(stty -g); stty raw -echo; echo raw; head -c 3 | od -An -tx1; stty $old; exit 4"))
		c.expect("raw")
		c.press(ctrlC + ctrlZ + "a")
		c.expect("03 1a 61")
		c.expect(prompt)
		c.status(4)
		if c.modes() != modes {
			c.Error("the modes of the terminal are not as they were")
		}
	})
	for name, script := range map[string]string{
		"dies of it": "stty raw -echo; echo raw; exec sleep 100",
		"handles it": "trap 'exit 5' TERM; stty raw -echo; echo raw; " + listen,
	} {
		inShells(t, "restored after a kill: it "+name, func(c *console) {
			modes := c.modes()
			c.enter("holdfast run --ttl 3s r -- " + c.command(script))
			c.expect("raw")
			c.force("r")
			c.expect("holdfast: the lock of \"r\" was lost .*force")
			c.expect(prompt)
			c.status(76)
			if c.modes() != modes {
				c.Error("the modes of the terminal are not restored")
			}
		})
	}
	for name, mode := range map[string]string{"success": "stty -echoe", "failure": "stty -echoe; exit 5"} {
		inShells(t, "left as the command left them: "+name, func(c *console) {
			modes := c.modes()
			c.enter("holdfast run r -- " + c.command(mode))
			c.expect(prompt)
			if c.modes() == modes {
				c.Error("the command's change of the modes was undone")
			}
		})
	}
	// What is in front meanwhile has set the modes as it needs them.
	inShells(t, "left alone from the background", func(c *console) {
		pid := c.run("holdfast run r -- %s &", "exec sleep 100")
		c.enter("stty -icrnl; echo changed")
		c.expectLine("changed")
		modes := c.modes()
		wrapper := c.wrapper(pid)
		c.check(syscall.Kill(pid, syscall.SIGKILL))
		c.dead(wrapper)
		if c.modes() != modes {
			c.Error("the modes of the terminal are changed")
		}
	})
}

func TestNoInput(t *testing.T) {
	for name, line := range map[string]string{
		"closed":      "holdfast run r -- %s <&-",
		"/dev/null":   "holdfast run r -- %s </dev/null",
		"all closed":  "holdfast run r -- %s <&- >&- 2>&-",
		"no terminal": "setsid -w holdfast run r -- %s",
		"pipe":        ": | holdfast run r -- %s",
	} {
		inShells(t, name, func(c *console) {
			if _, err := exec.LookPath("setsid"); err != nil && name == "no terminal" {
				c.Skip(err)
			}
			script := "read x; echo \"read: $?\"; : >ran; exit 3"
			if name == "no terminal" {
				script = "read x </dev/tty || echo none; : >ran; exit 3"
			}
			c.enter(fmt.Sprintf(line, c.command(script)))
			c.expect(prompt)
			c.status(3)
			if !c.exists("ran") {
				c.Error("the command did not run to its end")
			}
			c.free("r")
		})
	}
}

func TestWindowSize(t *testing.T) {
	for name, line := range map[string]string{
		"alone":  "holdfast run r -- %s",
		"script": "sh -c 'holdfast run r -- %s; exit 7'",
	} {
		inShells(t, name, func(c *console) {
			pid := c.run(line, counting("WINCH"))
			c.expectLine("counting")
			c.terminal(func(fd int) {
				c.check(unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 30, Col: 100}))
			})
			c.expectLine("got WINCH 1")
			c.check(syscall.Kill(c.wrapper(pid), syscall.SIGWINCH))
			c.expectLine("got WINCH 2")
			c.goOn()
			c.expectLine("total WINCH 2")
			c.expect(prompt)
			c.status(7)
		})
	}
}

// A terminal may stop processes that write to it from the background.
func TestTOSTOP(t *testing.T) {
	inShells(t, "", func(c *console) {
		c.enter("stty tostop; unset HOLDFAST_STORE; holdfast run --ttl 3s --on-loss warn r -- " + c.command("echo $$ >pid; "+pause+"; exit 3") + " >out &")
		c.expect("holdfast: this lock is for .*\n")
		c.until("running", func() bool { return c.exists("pid") })
		c.store = "sqlite://" + filepath.Join(c.dir, ".local/state/holdfast/holdfast.db")
		c.force("r")
		c.expect("holdfast: the lock of \"r\" was lost while \"sh\" runs.*\n")
		c.goOn()
		c.enter("wait $!; echo status $?.")
		if got := c.number(`status (\d+)\.`); got != 3 {
			c.Errorf("status %d, want 3", got)
		}
	})
	inShells(t, "in front", func(c *console) {
		c.enter("stty tostop; holdfast run --ttl 3s --on-loss warn r -- " + c.command(pause+"; exit 3"))
		c.pid()
		c.force("r")
		c.expect("holdfast: the lock of \"r\" was lost while \"sh\" runs.*\n")
		c.goOn()
		c.expect(prompt)
		c.status(3)
	})
}

// The terminal was given to a command that never ran.
func TestNotStarted(t *testing.T) {
	inShells(t, "", func(c *console) {
		shell := c.front()
		c.file("bad", "#!/missing/interpreter\n")
		c.check(os.Chmod(filepath.Join(c.dir, "bad"), 0o700))
		c.enter("holdfast run r -- ./bad")
		c.expect(`holdfast: "./bad" cannot be run`)
		c.expect(prompt)
		c.status(127)
		c.inFront(shell)
		c.free("r")
	})
}
