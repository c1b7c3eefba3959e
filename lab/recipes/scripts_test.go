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
	s.begun(1)
	second := start()
	s.waiting("deploy", 1)
	s.one(1)
	s.goOn(1)
	first.exits(0)
	if got := first.printed(); !strings.Contains(got, "switched r42\n") {
		t.Errorf("printed %q", got)
	}
	// A signal to the script reaches what it does.
	command := s.begun(2)
	third := start()
	s.waiting("deploy", 1)
	second.signal(syscall.SIGTERM)
	second.exits(128 + int(syscall.SIGTERM))
	if runs(command.pid) {
		t.Error("what the script did outlived it")
	}
	s.begun(3)
	// And a kill ends all of it before the next begins.
	fourth := start()
	s.waiting("deploy", 1)
	third.signal(syscall.SIGKILL)
	third.over()
	s.begun(4)
	if runs(s.events("begin")[2].pid) {
		t.Error("what a killed script did lives on")
	}
	s.goOn(1)
	fourth.exits(0)
}

func TestMigration(t *testing.T) {
	t.Parallel()
	s := set(t)
	s.env = append(s.env, "DATABASE_URL="+s.store, "HOLDFAST_STORE=")
	s.command("bin/goose")
	s.script("app", "#!/bin/sh\necho serving\n")
	s.script("start.sh", recipe(t, "start.sh"))
	s.waits("migrate", func() *run { return s.start(s.path("start.sh")) })
}

func TestMakeTargets(t *testing.T) {
	s := set(t)
	makes := s.tool("make")
	t.Parallel()
	s.command("test.sh")
	s.file("Makefile", 0o644, recipe(t, "Makefile"))
	all := s.start(makes, "-j4", "test")
	s.begun(1)
	s.waiting("test-database", 2)
	s.one(1)
	// Another make waits, too, until all else is done or this one is killed.
	s.goOn(2)
	third := s.begun(3)
	other := s.start(makes, "test-other")
	s.waiting("test-database", 1)
	s.killed(third)
	all.exits(2)
	s.goOn(1)
	other.exits(0)
}

// The job server of make is reached through holdfast run: without it the make inside
// says so, and runs one job at a time.
func TestMakeKeepsItsJobs(t *testing.T) {
	s := set(t)
	makes := s.tool("make")
	t.Parallel()
	s.command("part.sh")
	s.file("dist/Makefile", 0o644, "all: a b\na b:\n\t../part.sh $@\n")
	s.file("Makefile", 0o644, recipe(t, "Makefile.release"))
	first := s.start(makes, "-j2", "release")
	s.begun(2) // both at the same time
	second := s.start(makes, "-j2", "release")
	s.waiting("release", 1)
	s.one(2)
	s.goOn(2)
	first.exits(0)
	s.begun(4)
	s.goOn(2)
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
	s.begun(3)
	s.waiting("mirror", 2)
	s.one(3)
	s.killed(s.events("begin")[0])
	s.begun(4) // its place is free
	s.waiting("mirror", 1)
	s.one(4)
	s.goOn(4)
	all.exits(125) // as soon as one was killed
	s.until("ended", func() bool { return len(s.events("end")) == 4 })
}

// Who waits in turn is served before those that come later.
func TestInTurn(t *testing.T) {
	t.Parallel()
	s := set(t)
	s.command("deploy.sh")
	start := func() *run { return s.sh(recipe(t, "fair.sh")) }
	first := start()
	s.begun(1)
	second := start()
	s.waiting("deploy", 1)
	third := start()
	s.waiting("deploy", 2)
	s.goOn(1)
	first.exits(0)
	s.begun(2)
	late := s.start("holdfast", "run", "-n", "--quiet", "deploy", "--", "./deploy.sh")
	late.exits(75)
	s.killed(s.events("begin")[1])
	second.over()
	s.begun(3)
	s.goOn(1)
	third.exits(0)
	s.one(3)
}
