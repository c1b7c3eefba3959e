//go:build linux

package recipes

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// unit parses a unit file: the values of each key, in order.
func unit(text string) map[string][]string {
	values := make(map[string][]string)
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && line[0] != '#' {
			values[key] = append(values[key], value)
		}
	}
	return values
}

// service returns functions that start and stop a service as systemd does: without HOME, and
// with its credentials in a folder. Only the unit names the store.
func (s *stage) service(name string) (start func() *run, stop func(*run)) {
	s.Helper()
	u := unit(s.here(recipe(s.T, name)))
	source, ok := strings.CutPrefix(u["LoadCredential"][0], "store:")
	if !ok || source != "/etc/holdfast/store" {
		s.Fatalf("LoadCredential=%s", u["LoadCredential"])
	}
	s.file("credentials/store", 0o400, s.store+"\n")
	command := strings.Fields(strings.ReplaceAll(u["ExecStart"][0], "%d", s.path("credentials")))
	if slices.ContainsFunc(command, func(word string) bool { return strings.ContainsAny(word, `%"'\$`) }) {
		s.Fatalf("%q needs more of systemd than this test has", command)
	}
	env := []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOLDFAST_TTL=" + ttl}
	if kill := u["KillMode"]; !slices.Equal(kill, []string{"mixed"}) {
		s.Fatalf("KillMode=%s", kill)
	}
	return func() *run { return s.startIn(env, command[0], command[1:]...) },
		func(r *run) { r.signal(syscall.SIGTERM) } // KillMode=mixed: the first process only
}

func TestTimer(t *testing.T) {
	t.Parallel()
	s := set(t)
	s.command("bin/report")
	start, stop := s.service("report.service")
	u := unit(recipe(t, "report.service"))
	if !slices.Equal(u["SuccessExitStatus"], []string{"75"}) {
		t.Errorf("a skipped run is not a success: %q", u)
	}
	s.checkSkips(start, 75, `"report" is held by`)
	last := start()
	command := s.awaitBegun(3)
	stop(last)
	last.exits(128 + int(syscall.SIGTERM)) // for systemd a clean end
	if asked := s.events("signal"); len(asked) != 1 || asked[0].pid != command.pid {
		t.Errorf("the command got these signals: %v, want one", asked)
	}
}

func TestStandby(t *testing.T) {
	t.Parallel()
	s := set(t)
	s.command("bin/scheduler")
	start, stop := s.service("scheduler.service")
	first, second := start(), start()
	s.awaitBegun(1)
	s.awaitWaiters("scheduler", 1)
	s.checkBegun(1)
	one, other := first, second
	if parent(parent(s.events("begin")[0].pid)) != first.cmd.Process.Pid {
		one, other = second, first
	}
	stop(one)
	one.exits(128 + int(syscall.SIGTERM))
	s.awaitBegun(2)
	stop(other)
	other.exits(128 + int(syscall.SIGTERM))
	s.checkBegun(2)
}

// systemd finds no error in the units. The programs that they start must exist.
func TestUnits(t *testing.T) {
	s := set(t)
	analyze := s.tool("systemd-analyze")
	t.Parallel()
	s.command("bin/report")
	s.command("bin/scheduler")
	verify := func(names ...string) string {
		out, err := exec.CommandContext(t.Context(), analyze, append([]string{"verify", "--man=no"}, names...)...).CombinedOutput()
		if err != nil && len(out) == 0 {
			t.Fatal(err)
		}
		return string(out)
	}
	var files []string
	for _, name := range []string{"report.service", "report.timer", "scheduler.service"} {
		s.file("units/"+name, 0o644, s.here(recipe(t, name)))
		files = append(files, s.path("units/"+name))
	}
	if said := verify(files...); said != "" {
		t.Error(said)
	}
	s.file("units/report.service", 0o644, strings.ReplaceAll(s.here(recipe(t, "report.service")), "KillMode=", "KilMode="))
	if said := verify(s.path("units/report.service")); !strings.Contains(said, "KilMode") {
		t.Errorf("a wrong key is not noticed: %q", said)
	}
}

// packaged is the folder of the units that the packages install.
const packaged = "../../cmd/holdfast/packaging/systemd"

// systemd finds no error in the units of the server.
func TestServerUnits(t *testing.T) {
	s := set(t)
	analyze := s.tool("systemd-analyze")
	t.Parallel()
	args := []string{"verify", "--man=no"}
	for _, name := range []string{"holdfast.service", "holdfast.socket"} {
		s.file("units/"+name, 0o644, s.here(read(t, filepath.Join(packaged, name))))
		args = append(args, s.path("units/"+name))
	}
	if out, err := exec.CommandContext(t.Context(), analyze, args...).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("%v: %s", err, out)
	}
}

// The command in the server's unit serves the locks of the store that the unit names, and
// notifies systemd when it is ready and when it ends. Its folders are in the stage.
func TestServerOfTheUnit(t *testing.T) {
	t.Parallel()
	s := set(t)
	u := unit(s.here(read(t, filepath.Join(packaged, "holdfast.service"))))
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: s.path("notify"), Net: "unixgram"})
	s.check(err)
	defer manager.Close()
	env := []string{"PATH=/usr/bin:/bin", "NOTIFY_SOCKET=" + s.path("notify"), "HOLDFAST_SERVE_LISTEN=none", "HOLDFAST_SERVE_DRAIN_DELAY=0"}
	for _, folder := range []string{"StateDirectory", "RuntimeDirectory"} {
		if !slices.Equal(u[folder], []string{"holdfast"}) || !slices.Equal(u[folder+"Mode"], []string{"0700"}) {
			t.Errorf("%s=%s, Mode=%s", folder, u[folder], u[folder+"Mode"])
		}
	}
	folders := strings.NewReplacer("/var/lib/holdfast", s.path("state"), "/run/holdfast", s.path("run"))
	for _, assignment := range u["Environment"] {
		env = append(env, folders.Replace(assignment))
	}
	for _, folder := range []string{"state", "run"} {
		s.check(os.Mkdir(s.path(folder), 0o700))
	}
	command := strings.Fields(u["ExecStart"][0])
	server := s.startIn(env, command[0], command[1:]...)
	told := func(want string) {
		t.Helper()
		s.check(manager.SetReadDeadline(time.Now().Add(patience)))
		message := make([]byte, 4096)
		n, err := manager.Read(message)
		s.check(err)
		if got, _, _ := strings.Cut(string(message[:n]), "\n"); got != want {
			t.Errorf("systemd is told %q, want %q", got, want)
		}
	}
	told("READY=1")
	socket := "unix://" + s.path("run/holdfast.sock")
	other := s.start("holdfast", "run", "--store", socket, "job", "--", "env", "-u", "HOLDFAST_HELD", "holdfast", "run", "-n", "--store", s.path("state/locks.db"), "job", "--", "true")
	other.exits(75)
	server.signal(syscall.SIGTERM)
	told("STOPPING=1")
	server.exits(0)
}
