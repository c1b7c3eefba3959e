//go:build linux

package recipes

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

// A caller exits as its command does, with the number of the signal that killed it.
func TestCallersWhoseCommandIsKilled(t *testing.T) {
	onCallers(t, func(c *calling) {
		first := c.nightly()
		c.check(syscall.Kill(c.begun(1).pid, syscall.SIGKILL))
		first.exits(128 + int(syscall.SIGKILL))
		c.free()
	})
}

// A signal ends the command and then the lock, also while the caller waits.
func TestCallersThatAreInterrupted(t *testing.T) {
	onCallers(t, func(c *calling) {
		first := c.nightly()
		command := c.begun(1)
		second := c.nightly()
		c.waiting("nightly", 1)
		second.signal(syscall.SIGTERM)
		second.exits(128 + int(syscall.SIGTERM))
		sig := syscall.SIGINT
		if c.lock == "locked.sh" { // what is started in the background ignores INT
			sig = syscall.SIGTERM
		}
		first.signal(sig)
		first.exits(128 + int(sig))
		c.dead(command.pid)
		c.free()
	})
}

// The command knows the fencing token, and who waits sees who holds the lock.
func TestCallersNameThemselves(t *testing.T) {
	onCallers(t, func(c *calling) {
		c.script("nightly.sh", "#!/bin/sh\necho \"$HOLDFAST_TOKEN\" > token\nholdfast status --json nightly > status\n")
		c.nightly().exits(0)
		if token := strings.TrimSpace(read(t, c.path("token"))); token == "" || strings.Trim(token, "0123456789") != "" {
			t.Errorf("the command got the token %q", token)
		}
		if status := read(t, c.path("status")); strings.Contains(status, `"owner":""`) || strings.Contains(status, `"host":""`) {
			t.Errorf("nobody can see who holds the lock: %s", status)
		}
	})
}

// with starts the caller with another environment.
func (c *calling) with(env ...string) *run {
	c.Helper()
	return c.startIn(append(slices.Clone(c.env), env...), c.program[0], c.path(c.use))
}

// A server that is not there is asked again, and said to be. What is no server is refused. A
// slash at the end and a proxy change nothing.
func TestCallersSayWhatIsWrong(t *testing.T) {
	onCallers(t, func(c *calling) {
		for _, url := range []string{"http://127.0.0.1:1", "https" + strings.TrimPrefix(c.url, "http")} {
			r := c.with("HOLDFAST_URL=" + url)
			c.until("said", func() bool { return strings.Contains(r.printed(), "gives no definite answer") })
			r.signal(syscall.SIGKILL)
			r.over()
		}
		for _, url := range []string{"ftp://127.0.0.1", "127.0.0.1:4653", "http:///"} {
			r := c.with("HOLDFAST_URL=" + url)
			r.over()
			if r.cmd.ProcessState.Success() || !strings.Contains(r.printed(), "not of the form") {
				t.Errorf("%s: %v and %q", url, r.cmd.ProcessState, r.printed())
			}
		}
		r := c.with("HOLDFAST_URL="+c.url+"/", "http_proxy=http://127.0.0.1:1", "HTTP_PROXY=http://127.0.0.1:1")
		c.begun(1)
		c.goOn(1)
		r.exits(0)
	})
}

// Who is refused for good says why, and asks no more than it has to.
func TestCallersThatAreRefused(t *testing.T) {
	onCallers(t, func(c *calling) {
		var authorized, releases atomic.Int32
		refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") == "Bearer hf_secret" {
				authorized.Add(1)
			}
			if r.URL.Path == "/v1/release" {
				releases.Add(1)
			}
			w.Header().Set("Content-Type", "application/problem+json")
			w.Header().Set("Holdfast-Store", "0123456789abcdef01234567")
			text := `{"type":"urn:holdfast:denied","title":"Forbidden","status":403,"detail":"no right to lock"}`
			w.Header().Set("Content-Length", strconv.Itoa(len(text)))
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, text)
		}))
		t.Cleanup(refusing.Close)
		r := c.with("HOLDFAST_URL="+refusing.URL, "HOLDFAST_TOKEN=17", "HOLDFAST_SERVER_TOKEN=hf_secret")
		r.over()
		if r.cmd.ProcessState.Success() || !strings.Contains(r.printed(), "no right to lock") {
			t.Errorf("%v and %q", r.cmd.ProcessState, r.printed())
		}
		if authorized.Load() == 0 || releases.Load() > 1 {
			t.Errorf("%d requests with the token, %d releases", authorized.Load(), releases.Load())
		}
	})
}
