//go:build unix

package examples_test

import (
	"bufio"
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience is how long an event may take on a busy machine.
const patience = time.Minute

// build builds the programs once.
var build = sync.OnceValues(func() (string, error) {
	folder, err := os.MkdirTemp("", "holdfast-examples-")
	if err != nil {
		return "", err
	}
	cmd := exec.Command("go", "build", "-o", folder, "./...")
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	return folder, cmd.Run()
})

func TestMain(m *testing.M) {
	code := m.Run()
	if folder, _ := build(); folder != "" {
		os.RemoveAll(folder)
	}
	os.Exit(code)
}

// pair is two instances of a program, in a folder of their own.
type pair struct {
	t     *testing.T
	lines chan line
	both  [2]*exec.Cmd
}

// line is a log line of an instance. At the end of the instance the text is empty.
type line struct {
	of   int
	text string
}

// start starts two instances with the same arguments. The test ends them.
func start(t *testing.T, program string, args ...string) *pair {
	t.Helper()
	t.Parallel()
	folder, err := build()
	if err != nil {
		t.Fatal(err)
	}
	p := &pair{t: t, lines: make(chan line)}
	shared := t.TempDir()
	for i := range p.both {
		cmd := exec.CommandContext(t.Context(), filepath.Join(folder, program), append([]string{"-ttl", "2s"}, args...)...)
		cmd.Dir = shared
		logged, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill() // if it still runs
			_ = cmd.Wait()
		})
		p.both[i] = cmd
		go func() {
			text := bufio.NewScanner(logged)
			for more := true; more; {
				more = text.Scan()
				select {
				case p.lines <- line{i, text.Text()}:
				case <-t.Context().Done():
				}
			}
		}()
	}
	return p
}

// until waits for a line that contains the text, of the given instance or, if that is
// negative, of any. It returns the instance and the rest of the line.
func (p *pair) until(of int, text string) (int, string) {
	p.t.Helper()
	for limit := time.After(patience); ; {
		select {
		case l := <-p.lines:
			p.t.Logf("%d: %s", l.of, l.text)
			_, rest, found := strings.Cut(l.text, text)
			if found && (of < 0 || of == l.of) && (text != "" || l.text == "") {
				return l.of, rest
			}
		case <-limit:
			p.t.Fatalf("no line with %q within %v", text, patience)
		}
	}
}

// kill kills an instance and returns the other one.
func (p *pair) kill(i int) int {
	p.t.Helper()
	if err := p.both[i].Process.Kill(); err != nil {
		p.t.Fatal(err)
	}
	return 1 - i
}

// signal sends a signal to an instance.
func (p *pair) signal(i int, what syscall.Signal) {
	p.t.Helper()
	if err := p.both[i].Process.Signal(what); err != nil {
		p.t.Fatal(err)
	}
}

// end ends an instance as an operator does.
func (p *pair) end(i int) {
	p.t.Helper()
	p.signal(i, syscall.SIGTERM)
	p.ended(i)
}

// ended waits for the end of an instance.
func (p *pair) ended(i int) {
	p.t.Helper()
	p.until(i, "")
	if err := p.both[i].Wait(); err != nil {
		p.t.Errorf("its end: %v", err)
	}
}

// The program of the README does its work each time.
func TestFirst(t *testing.T) {
	t.Parallel()
	folder, err := build()
	if err != nil {
		t.Fatal(err)
	}
	here := t.TempDir()
	for range 2 {
		cmd := exec.CommandContext(t.Context(), filepath.Join(folder, "first"))
		cmd.Dir = here
		out, err := cmd.CombinedOutput()
		if err != nil || string(out) != "only one of us runs this\n" {
			t.Errorf("%v, %s", err, out)
		}
	}
}

func TestScheduler(t *testing.T) {
	p := start(t, "scheduler", "-every", "300ms")
	first, _ := p.until(-1, "reporting")
	other := p.kill(first)
	p.until(other, "reporting")
	p.until(other, "reporting")
	p.end(other)
}

func TestMigrate(t *testing.T) {
	p := start(t, "migrate")
	first, _ := p.until(-1, "migrating")
	other := p.kill(first)
	p.until(other, "migrating") // from the beginning
	p.until(other, "applied 1 migrations")
	p.until(other, "ready")
	p.end(other)
}

func TestCertificates(t *testing.T) {
	p := start(t, "certificates", "-name", "app.internal")
	first, _ := p.until(-1, "asking for a certificate of app.internal")
	other := p.kill(first)
	p.until(other, "asking for a certificate of app.internal")
	p.until(other, "ready")
	p.end(other)
}

// An instance that was stopped while it made a certificate does not replace the certificate
// of the next holder.
func TestCertificatesAfterAStop(t *testing.T) {
	p := start(t, "certificates", "-name", "app.internal")
	stopped, _ := p.until(-1, "asking for a certificate of app.internal")
	p.signal(stopped, syscall.SIGSTOP)
	other := 1 - stopped
	p.until(other, "ready")
	file := filepath.Join(p.both[other].Dir, "certificates", "certificates", "internal", "app.internal", "app.internal.crt")
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	p.signal(stopped, syscall.SIGCONT)
	p.until(stopped, "lost")
	p.until(stopped, "")
	if after, err := os.ReadFile(file); err != nil || !bytes.Equal(before, after) {
		t.Errorf("another certificate, or %v", err)
	}
	p.end(other)
}

func TestLeader(t *testing.T) {
	p := start(t, "leader", "-listen", "127.0.0.1:0")
	var address [2]string
	for range address {
		of, at := p.until(-1, "listening on ")
		address[of] = at
	}
	leader := p.answers(http.StatusOK, address[:]...)
	if got := p.answers(http.StatusServiceUnavailable, address[:]...); got == leader {
		t.Error("the leader refuses requests")
	}
	other := p.kill(leader)
	p.answers(http.StatusOK, address[other])
	p.end(other)
}

// answers waits until one of the instances answers with the status, and returns it.
func (p *pair) answers(status int, addresses ...string) int {
	p.t.Helper()
	for limit := time.Now().Add(patience); time.Now().Before(limit); {
		for i, address := range addresses {
			r, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, "http://"+address+"/ready", nil)
			if err != nil {
				p.t.Fatal(err)
			}
			answer, err := http.DefaultClient.Do(r)
			if err != nil {
				p.t.Fatal(err)
			}
			answer.Body.Close()
			if answer.StatusCode == status {
				return i
			}
		}
	}
	p.t.Fatalf("no instance of %v answers %d within %v", addresses, status, patience)
	return 0
}
