package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	_ "github.com/holdfast-go/holdfast/httplock" // registers the schemes http and https
)

// served is a process of holdfast serve with a store, configured for callers on other hosts:
// tokens and rights, an audit log, and TLS if there is a certificate.
type served struct {
	cmd     *exec.Cmd
	url     string // of its API
	callers []servedCaller
	// trusting is the TLS configuration for clients of a server with TLS.
	trusting *tls.Config
}

func (s *served) scheme() string {
	if s.trusting != nil {
		return "HTTPS"
	}
	return "HTTP"
}

// servedCaller is a caller with its Client. A server accepts 10,000 requests a second from each
// caller, so measurements use several.
type servedCaller struct {
	token string
	store driver.Store
	locks *holdfast.Client
}

// serveCallers is the number of callers, enough not to reach their limits.
const serveCallers = 8

// serveWithin limits the start of a server.
const serveWithin = time.Minute

// serve starts a server for the store. The certificate may be nil.
func serve(ctx context.Context, binary, dir, storeURL string, c *certificate) *served {
	dir = must(os.MkdirTemp(dir, "serve-"))
	s := &served{}
	var file struct {
		Callers []map[string]any `json:"callers"`
	}
	for i := range serveCallers {
		token, entry := newCaller(ctx, binary, fmt.Sprintf("caller-%d", i))
		s.callers = append(s.callers, servedCaller{token: token})
		file.Callers = append(file.Callers, entry)
	}
	text := must(json.Marshal(file))
	auth := filepath.Join(dir, "auth.json")
	check(os.WriteFile(auth, text, 0o600))
	s.cmd = exec.CommandContext(ctx, binary, "serve", "--store", storeURL, "--listen", "127.0.0.1:0", "--auth", auth,
		"--audit", filepath.Join(dir, "audit"), "--drain-delay", "0")
	if c != nil {
		s.cmd.Args = append(s.cmd.Args, "--tls-cert", c.cert, "--tls-key", c.key)
		s.trusting = c.trusting()
	}
	s.cmd.Cancel = func() error { return s.cmd.Process.Signal(os.Interrupt) }
	said := must(s.cmd.StderrPipe())
	check(s.cmd.Start())
	defer undo(s.stop)
	check(s.awaitReady(said))
	for i := range s.callers {
		s.open(ctx, filepath.Join(dir, fmt.Sprintf("token-%d", i)), &s.callers[i], c)
	}
	return s
}

// newCaller makes a token and its entry in the auth file.
func newCaller(ctx context.Context, binary, name string) (token string, entry map[string]any) {
	var said strings.Builder
	cmd := exec.CommandContext(ctx, binary, "token", name)
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		failf("holdfast token: %w\n%s", err, said.String())
	}
	if err := json.Unmarshal([]byte(said.String()), &entry); err != nil {
		failf("holdfast token said %q: %w", said.String(), err)
	}
	entry["rules"] = []any{map[string]any{"resources": "*", "may": []string{"lock", "look"}}}
	return strings.TrimSpace(string(out)), entry
}

var listening = regexp.MustCompile(`listening on (https?://[^, ]+)`)

// awaitReady reads the server's addresses until it is ready. It discards later output.
func (s *served) awaitReady(said io.Reader) error {
	ready := make(chan error, 1)
	go func() {
		var all []string
		lines := bufio.NewScanner(said)
		for lines.Scan() {
			line := lines.Text()
			all = append(all, line)
			if m := listening.FindStringSubmatch(line); m != nil {
				s.url = m[1]
			}
			if strings.HasSuffix(line, ": ready") {
				ready <- nil
				_, _ = io.Copy(io.Discard, said)
				return
			}
		}
		ready <- fmt.Errorf("the server is not ready: %s", strings.Join(all, "\n"))
	}()
	select {
	case err := <-ready:
		return err
	case <-time.After(serveWithin):
		return fmt.Errorf("the server is not ready after %v", serveWithin)
	}
}

// open opens a Client for a caller, whose token is in the file, and locks once.
func (s *served) open(ctx context.Context, file string, caller *servedCaller, c *certificate) {
	check(os.WriteFile(file, []byte(caller.token), 0o600))
	query := url.Values{"token_file": {file}}
	if c != nil {
		query.Set("ca", c.cert)
	}
	caller.store = must(driver.Open(ctx, s.url+"?"+query.Encode()))
	caller.locks = holdfast.New(caller.store, nil)
	check(lockAndUnlock(ctx, caller.locks, "first"))
}

// dropped returns how many events are missing in the audit log.
func (s *served) dropped(ctx context.Context) string {
	req := must(http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/metrics", nil))
	req.Header.Set("Authorization", "Bearer "+s.callers[0].token)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: s.trusting}}
	defer client.CloseIdleConnections()
	res, err := client.Do(req)
	check(err)
	defer res.Body.Close()
	text := must(io.ReadAll(res.Body))
	m := regexp.MustCompile(`(?m)^holdfast_server_audit_dropped_total (\S+)$`).FindSubmatch(text)
	if m == nil {
		failf("%s: no audit among the metrics", s.url)
	}
	return string(m[1])
}

// noteDropped notes in the results if events are missing in the audit logs, which makes
// requests cheaper.
func noteDropped(ctx context.Context, results []result, servers ...*served) {
	for _, s := range servers {
		n := s.dropped(ctx)
		for i := range results {
			if n != "0" {
				results[i].Detail += fmt.Sprintf("; over %s the audit has dropped %s events in all", s.scheme(), n)
			}
		}
	}
}

// stop closes the Clients and then stops the server.
func (s *served) stop() error {
	var errs []error
	for _, c := range s.callers {
		if c.locks != nil {
			errs = append(errs, c.locks.Close())
		}
		if c.store != nil {
			errs = append(errs, c.store.Close())
		}
	}
	errs = append(errs, s.cmd.Process.Signal(os.Interrupt), s.cmd.Wait())
	return errors.Join(errs...)
}

// servedTwice is a store behind two servers. The second one has TLS.
type servedTwice struct{ plain, secure *served }

// serveTwice starts both servers.
func serveTwice(ctx context.Context, binary, dir, storeURL string, c *certificate) *servedTwice {
	plain := serve(ctx, binary, dir, storeURL, nil)
	defer undo(plain.stop)
	return &servedTwice{plain, serve(ctx, binary, dir, storeURL, c)}
}

func (s *servedTwice) stop() error { return errors.Join(s.plain.stop(), s.secure.stop()) }
