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

// A caller exits with the status of its command, or with the number of the signal that killed
// it.
func TestCallersWhoseCommandIsKilled(t *testing.T) {
	onCallers(t, func(c *calling) {
		first := c.nightly()
		c.check(syscall.Kill(c.awaitBegun(1).pid, syscall.SIGKILL))
		first.exits(128 + int(syscall.SIGKILL))
		c.checkFree()
	})
}

// A signal ends the command and then releases the lock, or ends the wait of the caller.
func TestCallersThatAreInterrupted(t *testing.T) {
	onCallers(t, func(c *calling) {
		first := c.nightly()
		command := c.awaitBegun(1)
		second := c.nightly()
		c.awaitWaiters("nightly", 1)
		second.signal(syscall.SIGTERM)
		second.exits(128 + int(syscall.SIGTERM))
		sig := syscall.SIGINT
		if c.lock == "locked.sh" { // background processes ignore INT
			sig = syscall.SIGTERM
		}
		first.signal(sig)
		first.exits(128 + int(sig))
		c.dead(command.pid)
		c.checkFree()
	})
}

// The command knows the fencing token, and a waiter prints the holder.
func TestCallersNameThemselves(t *testing.T) {
	onCallers(t, func(c *calling) {
		c.script("nightly.sh", "#!/bin/sh\necho \"$HOLDFAST_TOKEN\" > token\nholdfast status --json nightly > status\n")
		c.nightly().exits(0)
		if token := strings.TrimSpace(read(t, c.path("token"))); token == "" || strings.Trim(token, "0123456789") != "" {
			t.Errorf("the command got the token %q", token)
		}
		if status := read(t, c.path("status")); strings.Contains(status, `"owner":""`) || strings.Contains(status, `"host":""`) {
			t.Errorf("the waiter does not print the holder: %s", status)
		}
	})
}

// with starts the caller with additional environment variables.
func (c *calling) with(env ...string) *run {
	c.Helper()
	return c.startIn(append(slices.Clone(c.env), env...), c.program[0], c.path(c.use))
}

// The callers repeat a request if the server is not available, and print that. They refuse a
// URL that is not valid. A slash at the end and a proxy change nothing.
func TestCallersSayWhatIsWrong(t *testing.T) {
	onCallers(t, func(c *calling) {
		for _, url := range []string{"http://127.0.0.1:1", "https" + strings.TrimPrefix(c.url, "http")} {
			r := c.with("HOLDFAST_URL=" + url)
			c.until("said", func() bool { return strings.Contains(r.printed(), "gives no definite answer") })
			r.signal(syscall.SIGKILL)
			r.awaitEnd()
		}
		for _, url := range []string{"ftp://127.0.0.1", "127.0.0.1:4653", "http:///"} {
			r := c.with("HOLDFAST_URL=" + url)
			r.awaitEnd()
			if r.cmd.ProcessState.Success() || !strings.Contains(r.printed(), "not of the form") {
				t.Errorf("%s: %v and %q", url, r.cmd.ProcessState, r.printed())
			}
		}
		r := c.with("HOLDFAST_URL="+c.url+"/", "http_proxy=http://127.0.0.1:1", "HTTP_PROXY=http://127.0.0.1:1")
		c.awaitBegun(1)
		c.letEnd(1)
		r.exits(0)
	})
}

// A caller that is refused for good prints the reason, and sends no unnecessary request.
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
		r.awaitEnd()
		if r.cmd.ProcessState.Success() || !strings.Contains(r.printed(), "no right to lock") {
			t.Errorf("%v and %q", r.cmd.ProcessState, r.printed())
		}
		if authorized.Load() == 0 || releases.Load() > 1 {
			t.Errorf("%d requests with the token, %d releases", authorized.Load(), releases.Load())
		}
	})
}
