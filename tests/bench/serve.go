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
	_ "github.com/holdfast-go/holdfast/httplock" // the stores of http and https
)

// served is a process of holdfast serve in front of a store, with all that a server for
// others has: callers with tokens and rights, an audit, and TLS if there is a certificate.
type served struct {
	cmd     *exec.Cmd
	url     string // of its API
	debug   string // of its metrics and profiles
	callers []servedCaller
	// trusting is for clients of a server with TLS.
	trusting *tls.Config
}

func (s *served) scheme() string {
	if s.trusting != nil {
		return "HTTPS"
	}
	return "HTTP"
}

// servedCaller is one that the server knows, and its Client. A server takes 10,000
// requests a second of each, so more of them come in as several.
type servedCaller struct {
	token string
	store driver.Store
	locks *holdfast.Client
}

// serveCallers are so many that their limits do not count.
const serveCallers = 8

// serveWithin is how long a server may take to be ready.
const serveWithin = time.Minute

// serve starts a server of that store. The certificate may be nil.
func serve(ctx context.Context, binary, dir, storeURL string, c *certificate) (_ *served, err error) {
	if dir, err = os.MkdirTemp(dir, "serve-"); err != nil {
		return nil, err
	}
	s := &served{}
	var file struct {
		Callers []map[string]any `json:"callers"`
	}
	for i := range serveCallers {
		token, entry, err := newCaller(ctx, binary, fmt.Sprintf("caller-%d", i))
		if err != nil {
			return nil, err
		}
		s.callers = append(s.callers, servedCaller{token: token})
		file.Callers = append(file.Callers, entry)
	}
	text, err := json.Marshal(file)
	if err != nil {
		return nil, err
	}
	auth := filepath.Join(dir, "auth.json")
	if err := os.WriteFile(auth, text, 0o600); err != nil {
		return nil, err
	}
	s.cmd = exec.CommandContext(ctx, binary, "serve", "--store", storeURL, "--listen", "127.0.0.1:0", "--auth", auth,
		"--audit", filepath.Join(dir, "audit"), "--debug-listen", "127.0.0.1:0", "--drain-delay", "0")
	if c != nil {
		s.cmd.Args = append(s.cmd.Args, "--tls-cert", c.cert, "--tls-key", c.key)
		if s.trusting, err = c.trusting(); err != nil {
			return nil, err
		}
	}
	s.cmd.Cancel = func() error { return s.cmd.Process.Signal(os.Interrupt) }
	said, err := s.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	if err := s.awaitReady(said); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	for i := range s.callers {
		if err := s.open(ctx, filepath.Join(dir, fmt.Sprintf("token-%d", i)), &s.callers[i], c); err != nil {
			return nil, errors.Join(err, s.stop())
		}
	}
	return s, nil
}

// newCaller makes a token and its entry of the auth file.
func newCaller(ctx context.Context, binary, name string) (token string, entry map[string]any, err error) {
	var said strings.Builder
	cmd := exec.CommandContext(ctx, binary, "token", name)
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return "", nil, fmt.Errorf("holdfast token: %w\n%s", err, said.String())
	}
	if err := json.Unmarshal([]byte(said.String()), &entry); err != nil {
		return "", nil, fmt.Errorf("holdfast token said %q: %w", said.String(), err)
	}
	entry["rules"] = []any{map[string]any{"resources": "*", "may": []string{"lock", "look"}}}
	return strings.TrimSpace(string(out)), entry, nil
}

var listening = regexp.MustCompile(`listening on (https?://[^, ]+)`)

// awaitReady reads where the server listens, up to when it is ready. What it says later
// is for people.
func (s *served) awaitReady(said io.Reader) error {
	ready := make(chan error, 1)
	go func() {
		var all []string
		lines := bufio.NewScanner(said)
		for lines.Scan() {
			line := lines.Text()
			all = append(all, line)
			switch m := listening.FindStringSubmatch(line); {
			case m == nil:
			case s.url == "":
				s.url = m[1]
			default:
				s.debug = m[1]
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

// open opens the store of a caller, whose token is kept in that file, and has locked once.
func (s *served) open(ctx context.Context, file string, caller *servedCaller, c *certificate) (err error) {
	if err := os.WriteFile(file, []byte(caller.token), 0o600); err != nil {
		return err
	}
	query := url.Values{"token_file": {file}}
	if c != nil {
		query.Set("ca", c.cert)
	}
	if caller.store, err = driver.Open(ctx, s.url+"?"+query.Encode()); err != nil {
		return err
	}
	caller.locks = holdfast.New(caller.store, nil)
	return lockAndUnlock(ctx, caller.locks, "first")
}

// dropped returns how many events are missing in the audit.
func (s *served) dropped(ctx context.Context) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.debug+"/metrics", nil)
	if err != nil {
		return "", err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return "", err
	}
	m := regexp.MustCompile(`(?m)^holdfast_server_audit_dropped_total (\S+)$`).FindSubmatch(text)
	if m == nil {
		return "", fmt.Errorf("%s: no audit among the metrics", s.debug)
	}
	return string(m[1]), nil
}

// noteDropped notes in the results if events are missing in the audits: they cost less then.
func noteDropped(ctx context.Context, results []result, servers *servedTwice) error {
	for _, s := range []*served{servers.plain, servers.secure} {
		n, err := s.dropped(ctx)
		if err != nil {
			return err
		}
		for i := range results {
			if n != "0" {
				results[i].Detail += fmt.Sprintf("; over %s the audit has dropped %s events in all", s.scheme(), n)
			}
		}
	}
	return nil
}

// stop ends the Clients and then the server.
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

// servedTwice is a store behind two servers, the second of which has TLS.
type servedTwice struct{ plain, secure *served }

// serveTwice starts both.
func serveTwice(ctx context.Context, binary, dir, storeURL string, c *certificate) (*servedTwice, error) {
	plain, err := serve(ctx, binary, dir, storeURL, nil)
	if err != nil {
		return nil, err
	}
	secure, err := serve(ctx, binary, dir, storeURL, c)
	if err != nil {
		return nil, errors.Join(err, plain.stop())
	}
	return &servedTwice{plain, secure}, nil
}

func (s *servedTwice) stop() error { return errors.Join(s.plain.stop(), s.secure.stop()) }
