//go:build linux

package recipes

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// The entry point of the image is the first process of a PID namespace, as in a container.
func TestContainer(t *testing.T) {
	s := set(t)
	unshare := s.tool("unshare")
	flags := []string{"--pid", "--fork", "--mount-proc", "--kill-child"}
	if os.Geteuid() != 0 {
		flags = append(flags, "--user", "--map-root-user")
	}
	if out, err := exec.CommandContext(t.Context(), unshare, append(flags, "true")...).CombinedOutput(); err != nil {
		t.Skipf("unshare: %v: %s", err, out)
	}
	t.Parallel()
	s.command("bin/report.sh")
	container := slices.Concat(flags, words(t, recipe(t, "Dockerfile"), "ENTRYPOINT"), words(t, recipe(t, "Dockerfile"), "CMD"))
	start := func() *run { return s.start(unshare, container...) }
	first := start()
	s.awaitBegun(1)
	second := start()
	second.exits(75)
	s.checkBegun(1)
	// docker stop sends TERM to the first process, which is the child of unshare.
	s.until("asked to end", func() bool {
		for _, child := range children(first.cmd.Process.Pid) {
			if err := syscall.Kill(child, syscall.SIGTERM); !errors.Is(err, syscall.ESRCH) { // it may have ended already
				s.check(err)
			}
		}
		return len(s.events("signal")) > 0
	})
	first.awaitEnd()
	third := start()
	s.awaitBegun(2)
	s.letEnd(1)
	third.exits(0)
}

// words returns the list of an instruction in a Dockerfile.
func words(t *testing.T, dockerfile, instruction string) []string {
	t.Helper()
	m := regexp.MustCompile(`(?m)^` + instruction + ` (\[.*\])$`).FindStringSubmatch(dockerfile)
	if m == nil {
		t.Fatalf("no list %s in\n%s", instruction, dockerfile)
	}
	var list []string
	if err := json.Unmarshal([]byte(m[1]), &list); err != nil {
		t.Fatal(err)
	}
	return list
}

// children returns the child processes of the process.
func children(pid int) []int {
	var found []int
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range processes {
		var child int
		if _, err := fmt.Sscan(filepath.Base(p), &child); err == nil && parent(child) == pid {
			found = append(found, child)
		}
	}
	return found
}

// A stand-in for Docker. The container is started by its daemon, which is not a descendant of
// holdfast run; the client only waits for it.
const (
	docker = `#!/bin/sh
case $1 in
run) echo "$*" > socket ;;
stop) kill "$(cat container)" ;;
esac
until [ -e stopped ]; do sleep 0.05; done
[ "$1" = stop ] || exit 143
`
	dockerDaemon = `read -r request < socket
sh -c 'echo $$ > container; exec ./work.sh' || touch stopped`
)

func TestDockerInATrap(t *testing.T) {
	t.Parallel()
	s := set(t)
	s.command("work.sh")
	s.script("bin/docker", docker)
	s.check(unix.Mkfifo(s.path("socket"), 0o600))
	s.sh(dockerDaemon)
	script := recipe(t, "load.sh")
	s.script("load.sh", script)
	command := regexp.MustCompile(`(?m)^# load.sh: (.*)$`).FindStringSubmatch(script)[1]
	first := s.sh("exec " + command)
	container := s.awaitBegun(1)
	second := s.start("holdfast", "run", "load", "--", "true")
	s.awaitWaiters("load", 1)
	first.signal(syscall.SIGTERM)
	first.exits(128 + int(syscall.SIGTERM))
	if isRunning(container.pid) {
		t.Error("the container outlived the run")
	}
	second.exits(0)
}

// nobody returns a user without rights.
func nobody(t *testing.T) *user.User {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can be two users")
	}
	u, err := user.Lookup("nobody")
	if err != nil {
		t.Skip(err)
	}
	return u
}

// With sudo outside, killing holdfast run ends the command of root. With sudo inside it does
// not, as the page says.
func TestSudo(t *testing.T) {
	s := set(t)
	sudo, unshare, setpriv := s.tool("sudo"), s.tool("unshare"), s.tool("setpriv")
	u := nobody(t)
	// The sudoers file is visible to this test alone, in a mount namespace.
	s.file("sudoers", 0o440, "nobody ALL=(root) NOPASSWD: SETENV: ALL\n")
	s.file("mounts.sh", 0o755, "#!/bin/sh\nset -e\nmount --make-rprivate /\nmount --bind "+s.path("sudoers")+" /etc/sudoers\n"+
		"exec "+setpriv+" --reuid="+u.Uid+" --regid="+u.Gid+" --clear-groups \"$@\"\n")
	as := func(lines string) *run {
		return s.start(unshare, "--mount", s.path("mounts.sh"), "/bin/sh", "-ec", lines)
	}
	for dir := s.dir; dir != filepath.Dir(os.TempDir()) && dir != "/"; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err == nil && info.Mode().Perm()&0o005 == 0 && dir != os.TempDir() {
			s.check(os.Chmod(dir, info.Mode().Perm()|0o055))
		}
	}
	try := as(sudo + " -n true")
	try.awaitEnd()
	if !try.cmd.ProcessState.Success() {
		t.Skipf("sudo cannot be used here: %s", try.printed())
	}
	t.Parallel()
	s.command("upgrade.sh")
	lines := strings.NewReplacer("=HOLDFAST_STORE", "=HOLDFAST_STORE,HOLDFAST_TTL", "sudo ", sudo+" -n ", "holdfast ", s.bin+"/holdfast ").Replace(recipe(t, "sudo.sh"))
	start := func() *run { return as(lines) }
	first := start()
	command := s.awaitBegun(1)
	second := start()
	s.awaitWaiters("upgrade", 1)
	s.checkBegun(1)
	s.killWrapper(command)
	first.awaitEnd()
	s.awaitBegun(2)
	s.letEnd(1)
	second.exits(0)
	s.checkBegun(2)
}

// sshd starts a server for this test, and makes the stage's ssh connect to it.
func (s *stage) sshd() {
	s.Helper()
	ssh, keygen := s.tool("ssh"), s.tool("ssh-keygen")
	server, err := exec.LookPath("sshd")
	if err != nil {
		server = "/usr/sbin/sshd" // not in every PATH
	}
	if _, err := os.Stat(server); err != nil {
		s.Skip("sshd is missing")
	}
	if os.Geteuid() == 0 {
		s.check(os.MkdirAll("/run/sshd", 0o755)) // required for root
	}
	me, err := user.Current()
	s.check(err)
	for _, key := range []string{"host", "user"} {
		out, err := exec.CommandContext(s.Context(), keygen, "-q", "-t", "ed25519", "-N", "", "-f", s.path(key)).CombinedOutput()
		if err != nil {
			s.Fatalf("%v: %s", err, out)
		}
	}
	s.file("authorized", 0o600, read(s.T, s.path("user.pub")))
	listener, err := (&net.ListenConfig{}).Listen(s.Context(), "tcp", "127.0.0.1:0")
	s.check(err)
	port := listener.Addr().(*net.TCPAddr).Port
	s.check(listener.Close())
	s.file("sshd.conf", 0o600, fmt.Sprintf("HostKey %s\nAuthorizedKeysFile %s\nStrictModes no\nUsePAM no\nPidFile none\n"+
		"PermitUserEnvironment no\nPermitRootLogin yes\nPasswordAuthentication no\nSetEnv PATH=%s:/usr/bin:/bin HOLDFAST_TTL=%s\n"+
		"ForceCommand cd %s && eval \"$SSH_ORIGINAL_COMMAND\"\n", s.path("host"), s.path("authorized"), s.bin, ttl, s.dir))
	daemon := s.start(server, "-D", "-e", "-f", s.path("sshd.conf"), "-o", fmt.Sprintf("ListenAddress=127.0.0.1:%d", port))
	s.until("listening", func() bool {
		select {
		case <-daemon.ended:
			s.Skipf("sshd: %s", daemon.printed())
		default:
		}
		conn, err := (&net.Dialer{}).DialContext(s.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	s.file("ssh.conf", 0o600, fmt.Sprintf("Host web1\n\tHostName 127.0.0.1\n\tPort %d\n\tUser %s\n\tIdentityFile %s\n"+
		"\tStrictHostKeyChecking no\n\tUserKnownHostsFile /dev/null\n\tLogLevel ERROR\n", port, me.Username, s.path("user")))
	s.script("bin/ssh", "#!/bin/sh\nexec "+ssh+" -F "+s.path("ssh.conf")+" \"$@\"\n")
}

func TestHoldfastOnTheOtherSide(t *testing.T) {
	s := set(t)
	s.sshd()
	t.Parallel()
	s.command("deploy.sh")
	s.file("store", 0o600, s.store+"\n")
	lines := strings.ReplaceAll(recipe(t, "ssh-other-side.sh"), "/etc/holdfast/store", s.path("store"))
	s.env = append(s.env, "HOLDFAST_STORE=") // the variable is not passed to the other host
	s.checkWaits("deploy", func() *run { return s.sh(lines) })
}

func TestSSHWithTerminal(t *testing.T) {
	s := set(t)
	s.sshd()
	t.Parallel()
	s.command("deploy.sh")
	start := func() *run { return s.sh("exec " + recipe(t, "ssh-tt.sh")) }
	first := start()
	remote := s.awaitBegun(1)
	second := start()
	s.awaitWaiters("deploy", 1)
	first.signal(syscall.SIGKILL)
	s.dead(remote.pid)
	if asked := s.events("signal"); len(asked) != 1 {
		t.Errorf("%v: the remote command should have got HUP", asked)
	}
	s.awaitBegun(2)
	s.letEnd(1)
	second.exits(0)
}
