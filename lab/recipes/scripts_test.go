//go:build linux

package recipes

import (
	"strings"
	"syscall"
	"testing"
)

func TestDeployScript(t *testing.T) {
	t.Parallel()
	s := set(t)
	s.script("deploy.sh", recipe(t, "deploy.sh"))
	s.command("build.sh")
	s.script("switch.sh", "#!/bin/sh\necho \"switched $1\"\n")
	start := func() *run { return s.start(s.path("deploy.sh"), "r42") }
	first := start()
	s.awaitBegun(1)
	second := start()
	s.awaitWaiters("deploy", 1)
	s.checkBegun(1)
	s.letEnd(1)
	first.exits(0)
	if got := first.printed(); !strings.Contains(got, "switched r42\n") {
		t.Errorf("printed %q", got)
	}
	// A signal to the script reaches its command.
	command := s.awaitBegun(2)
	third := start()
	s.awaitWaiters("deploy", 1)
	second.signal(syscall.SIGTERM)
	second.exits(128 + int(syscall.SIGTERM))
	if isRunning(command.pid) {
		t.Error("the command of the script outlived it")
	}
	s.awaitBegun(3)
	// After a kill of the script, its command ends before the next one begins.
	fourth := start()
	s.awaitWaiters("deploy", 1)
	third.signal(syscall.SIGKILL)
	third.awaitEnd()
	s.awaitBegun(4)
	if isRunning(s.events("begin")[2].pid) {
		t.Error("the command of a killed script is still running")
	}
	s.letEnd(1)
	fourth.exits(0)
	// A shell that outlived its run, and has its variables, is not under its lock.
	ended := s.start("holdfast", "run", "deploy", "--", "env")
	ended.exits(0)
	fifth := s.startIn(strings.Split(strings.TrimSpace(ended.printed()), "\n"), s.path("deploy.sh"), "r43")
	s.awaitBegun(5)
	sixth := start()
	s.awaitWaiters("deploy", 1)
	s.checkBegun(5)
	s.letEnd(2)
	fifth.exits(0)
	sixth.exits(0)
}

func TestMigration(t *testing.T) {
	t.Parallel()
	s := set(t)
	s.env = append(s.env, "DATABASE_URL="+s.store, "HOLDFAST_STORE=")
	s.command("bin/goose")
	s.script("app", "#!/bin/sh\necho serving\n")
	s.script("start.sh", recipe(t, "start.sh"))
	s.checkWaits("migrate", func() *run { return s.start(s.path("start.sh")) })
}

func TestMakeTargets(t *testing.T) {
	s := set(t)
	makes := s.tool("make")
	t.Parallel()
	s.command("test.sh")
	s.file("Makefile", 0o644, recipe(t, "Makefile"))
	all := s.start(makes, "-j4", "test")
	s.awaitBegun(1)
	s.awaitWaiters("test-database", 2)
	s.checkBegun(1)
	// Another make waits too, until the first is finished or killed.
	s.letEnd(2)
	third := s.awaitBegun(3)
	other := s.start(makes, "test-other")
	s.awaitWaiters("test-database", 1)
	s.killWrapper(third)
	all.exits(2)
	s.letEnd(1)
	other.exits(0)
}

// make reaches its job server through holdfast run: otherwise the inner make prints a warning
// and runs one job at a time.
func TestMakeKeepsItsJobs(t *testing.T) {
	s := set(t)
	makes := s.tool("make")
	t.Parallel()
	s.command("part.sh")
	s.file("dist/Makefile", 0o644, "all: a b\na b:\n\t../part.sh $@\n")
	s.file("Makefile", 0o644, recipe(t, "Makefile.release"))
	first := s.start(makes, "-j2", "release")
	s.awaitBegun(2) // both at the same time
	second := s.start(makes, "-j2", "release")
	s.awaitWaiters("release", 1)
	s.checkBegun(2)
	s.letEnd(2)
	first.exits(0)
	s.awaitBegun(4)
	s.letEnd(2)
	second.exits(0)
	if got := first.printed(); strings.Contains(got, "jobserver") {
		t.Errorf("make says %q", got)
	}
}

func TestXargs(t *testing.T) {
	s := set(t)
	s.tool("xargs")
	t.Parallel()
	s.command("fetch.sh")
	s.file("urls", 0o644, "u1\nu2\nu3\nu4\nu5\n")
	all := s.sh(recipe(t, "xargs.sh"))
	s.awaitBegun(3)
	s.awaitWaiters("mirror", 2)
	s.checkBegun(3)
	s.killWrapper(s.events("begin")[0])
	s.awaitBegun(4) // one of the places is free
	s.awaitWaiters("mirror", 1)
	s.checkBegun(4)
	s.letEnd(4)
	all.exits(125) // as soon as one was killed
	s.until("ended", func() bool { return len(s.events("end")) == 4 })
}

// A waiter in turn is served before later ones.
func TestInTurn(t *testing.T) {
	t.Parallel()
	s := set(t)
	s.command("deploy.sh")
	start := func() *run { return s.sh(recipe(t, "fair.sh")) }
	first := start()
	s.awaitBegun(1)
	second := start()
	s.awaitWaiters("deploy", 1)
	third := start()
	s.awaitWaiters("deploy", 2)
	s.letEnd(1)
	first.exits(0)
	s.awaitBegun(2)
	late := s.start("holdfast", "run", "-n", "--quiet", "deploy", "--", "./deploy.sh")
	late.exits(75)
	s.killWrapper(s.events("begin")[1])
	second.awaitEnd()
	s.awaitBegun(3)
	s.letEnd(1)
	third.exits(0)
	s.checkBegun(3)
}
