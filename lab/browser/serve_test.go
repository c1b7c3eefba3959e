package browser

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp"
)

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	var err error
	if scratch, err = os.MkdirTemp("", "holdfast-browser-"); err != nil {
		panic(err)
	}
	defer os.RemoveAll(scratch)
	return m.Run()
}

var scratch string // a folder for what the tests build and what browsers leave behind

// command builds holdfast once.
var command = sync.OnceValues(func() (string, error) {
	file := filepath.Join(scratch, "holdfast")
	build := exec.Command("go", "build", "-o", file, ".")
	build.Dir = filepath.Join("..", "..", "cmd", "holdfast")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return file, nil
})

// program returns the command holdfast with the arguments and with its own folder for state.
func program(t *testing.T, state string, args ...string) *exec.Cmd {
	t.Helper()
	file, err := command()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), file, args...) // the test ends it
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+state, "HOME="+state)
	return cmd
}

// running is a process of holdfast serve.
type running struct {
	*exec.Cmd
	url string
}

var listening = regexp.MustCompile(`listening on (http://[^, ]+)`)

// serve starts a server. The test may stop it.
func serve(t *testing.T, state string, args ...string) *running {
	t.Helper()
	cmd := program(t, state, append([]string{"serve", "--drain-delay", "0"}, args...)...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := &running{Cmd: cmd}
	lines := bufio.NewScanner(stderr)
	for r.url == "" && lines.Scan() {
		if found := listening.FindStringSubmatch(lines.Text()); found != nil {
			r.url = found[1] + "/"
		}
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines.Scan() { // until it closes its output
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-read
		_ = cmd.Wait()
	})
	if r.url == "" {
		t.Fatal("it listens nowhere")
	}
	return r
}

func (r *running) stop(t *testing.T) {
	t.Helper()
	if err := r.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_, _ = r.Process.Wait()
}

// After a cold start, the first page shows the lock of a killed program, its waiter, and when
// the lock ends.
func TestColdStart(t *testing.T) {
	b := open(t, 1200, 900)
	state := t.TempDir()
	s := serve(t, state, "--listen", "127.0.0.1:0")
	b.visit(s.url)
	b.shows("Nothing is held, and nobody waits.")
	run := func(args ...string) *exec.Cmd {
		cmd := program(t, state, append([]string{"run"}, args...)...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			_ = cmd.Wait()
		})
		return cmd
	}
	run("--owner", "alive", "backup", "--", "sleep", "300")
	dead := run("--owner", "dead", "--ttl", "60s", "nightly", "--", "sleep", "300")
	b.shows("2 holds", "nightly", "dead", "backup", "alive")
	run("--owner", "waiter", "--wait", "300s", "nightly", "--", "true")
	b.shows("1 waits")
	killTree(t, dead.Process.Pid)
	b.shows("needs a look", "nightly", "dead on", "Time left", "waiter on", "has waited for")
	b.do(chromedp.Click(`.trouble .resource`))
	b.shows("killed or stopped", "Time left")
}

// killTree kills holdfast run with all its descendants, the guard too, as a power loss does:
// otherwise the guard ends the command and releases the lock.
func killTree(t *testing.T, pid int) {
	t.Helper()
	tree := []int{pid}
	for i := 0; i < len(tree); i++ {
		_ = syscall.Kill(tree[i], syscall.SIGSTOP) // stopped, it cannot react to the end of the others
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", tree[i]))
		if len(tasks) == 0 {
			t.Skip("the processes of a run cannot be found here")
		}
		for _, task := range tasks {
			children, _ := os.ReadFile(task)
			for field := range strings.FieldsSeq(string(children)) {
				child, err := strconv.Atoi(field)
				if err != nil {
					t.Fatal(err)
				}
				tree = append(tree, child)
			}
		}
	}
	for _, pid := range tree {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// token creates a caller with the rules. It returns the token and the entry of the auth file.
func token(t *testing.T, name, rules string) (token, entry string) {
	t.Helper()
	cmd := program(t, t.TempDir(), "token", name)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err, said.String())
	}
	return strings.TrimSpace(string(out)), strings.Replace(strings.TrimSpace(said.String()), `"rules":[]`, `"rules":[`+rules+`]`, 1)
}

func writeAuth(t *testing.T, file string, entries ...string) {
	t.Helper()
	text := `{"sessionKey":"MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=","callers":[` + strings.Join(entries, ",") + `]}`
	if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
}

// A user who is not signed in is sent to the form, and from there back to the requested page.
// The page shows when a right is removed, a session ends or the server is gone.
func TestSignIn(t *testing.T) {
	b := open(t, 1200, 900, "401", "403", "Failed to load", "ERR_")
	state := t.TempDir()
	auth := filepath.Join(state, "auth.json")
	secret, entry := token(t, "ops", `{"resources":"*","may":["look","lock"]}`)
	writeAuth(t, auth, entry)
	s := serve(t, state, "--listen", "127.0.0.1:0", "--auth", auth)
	b.visit(s.url + "resource?name=nightly")
	b.shows("Sign in", "Your token")
	if strings.Contains(b.text(), "Nobody held it") {
		t.Error("it shows a page to everybody")
	}
	b.do(chromedp.SendKeys(`#token`, "hf_wrong"), chromedp.Click(`#sign-in button`))
	b.shows("No caller has this token.")
	b.do(chromedp.SendKeys(`#token`, secret), chromedp.Click(`#sign-in button`))
	b.shows("nightly", "Nobody held it at the last look.", "ops", "Sign out")
	if at := eval[string](b, `location.pathname + location.search + document.cookie + JSON.stringify(localStorage)`); at != "/resource?name=nightly{}" {
		t.Errorf("after the sign-in: %s", at)
	}

	// A right is removed, and restored.
	writeAuth(t, auth, strings.Replace(entry, `"resources":"*"`, `"resources":"others"`, 1))
	b.shows("You have no right to look at this resource.")
	writeAuth(t, auth, entry)
	b.visit(s.url + "resource?name=nightly")
	b.shows("Nobody held it at the last look.")

	// The server ends, and starts again at the same address: the session is still valid.
	s.stop(t)
	b.shows("The server does not answer")
	again := serve(t, state, "--listen", strings.TrimSuffix(strings.TrimPrefix(s.url, "http://"), "/"), "--auth", auth)
	b.shows("Nobody held it at the last look.")
	for strings.Contains(b.text(), "does not answer") {
		b.do(chromedp.Sleep(100_000_000))
	}

	// The token is replaced: the session ends, and a new one leads back to the page.
	newSecret, newEntry := token(t, "ops", `{"resources":"*","may":["look"]}`)
	writeAuth(t, auth, newEntry)
	b.shows("Sign in", "Your token")
	b.do(chromedp.SendKeys(`#token`, newSecret), chromedp.Click(`#sign-in button`))
	b.shows("nightly", "Nobody held it at the last look.")
	b.do(chromedp.Click(`[data-sign-out]`))
	b.shows("Sign in", "Your token")
	b.visit(again.url)
	b.shows("Sign in")

	// The cookie does not authenticate requests of the API.
	b.do(chromedp.SendKeys(`#token`, newSecret), chromedp.Click(`#sign-in button`))
	b.shows("Sign out")
	for _, path := range []string{"v1/holds", "v1/traits"} {
		if status := eval[int](b, `fetch("`+again.url+path+`").then(r => r.status)`); status != http.StatusUnauthorized {
			t.Errorf("%s: status %d", path, status)
		}
	}
}

// Whoever signs in with the right to force ends a hold from the first page, and the audit of the
// server has the reason.
func TestForceOnServer(t *testing.T) {
	b := open(t, 1200, 900)
	state := t.TempDir()
	auth, audit := filepath.Join(state, "auth.json"), filepath.Join(state, "audit.jsonl")
	secret, entry := token(t, "ops", `{"resources":"*","may":["look","lock","force"]}`)
	writeAuth(t, auth, entry)
	s := serve(t, state, "--listen", "127.0.0.1:0", "--auth", auth, "--audit", audit)
	cmd := program(t, state, "run", "--owner", "hangs", "nightly", "--", "sleep", "300")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	})
	b.visit(s.url)
	b.shows("Your token")
	b.do(chromedp.SendKeys(`#token`, secret), chromedp.Click(`#sign-in button`))
	b.shows("hangs on", "holdfast ", "up for")
	b.do(chromedp.Click(`td [data-release]`), chromedp.WaitVisible(`#reason`))
	b.do(chromedp.SendKeys(`#reason`, "it hangs"), chromedp.Click(`#dialog [type=submit]`))
	b.shows("Released. Its holder may go on until its next renewal tells it.")
	text, err := os.ReadFile(audit)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`"force-release"`, `"released"`, `"it hangs"`, `"ops"`} {
		if !strings.Contains(string(text), part) {
			t.Errorf("%s is not in the audit: %s", part, text)
		}
	}
	b.visit(s.url + "resource?name=nightly")
	b.shows("Who holds it")
	b.do(chromedp.Click(`[data-look]`))
	b.shows("Nobody held it at the last look.")
}
