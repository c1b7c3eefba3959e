package engines

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

var haproxyKind = &kind{name: "haproxy"}

// HAProxy returns the URL of a balancer in front of HTTP servers at the addresses. It ends with
// the test. Every 100 ms it asks each server at /readyz whether it accepts requests. After two
// negative answers it sends no more requests to the server, surely within HAProxyNotices; after
// one positive answer it does again. It repeats no request, so callers see every failure.
func HAProxy(t testing.TB, servers ...string) string {
	t.Helper()
	p, err := startHAProxy(context.WithoutCancel(t.Context()), servers)
	haproxyKind.need(t, err)
	t.Cleanup(p.end)
	return p.url
}

// HAProxyNotices is the time after which HAProxy surely sends nothing more to a server that
// says that it is not ready, on a busy machine too.
const HAProxyNotices = time.Second

func startHAProxy(ctx context.Context, servers []string) (*process, error) {
	program, env, err := debianDaemon(ctx, "haproxy")
	if err != nil {
		return nil, err
	}
	folder, err := unprivilegedFolder(ctx)
	if err != nil {
		return nil, err
	}
	var backend strings.Builder
	for i, s := range servers {
		fmt.Fprintf(&backend, "  server s%d %s check inter 100ms fall 2 rise 1\n", i, s)
	}
	p, err := native{
		name: "haproxy", folder: folder, env: env, crash: syscall.SIGKILL,
		url: func(port int) string { return "http://" + loopback(port) },
		command: func(port int) ([]string, error) {
			config := filepath.Join(folder, fmt.Sprintf("haproxy-%d.cfg", port))
			return []string{program, "-db", "-f", config}, writeUnprivileged(config, fmt.Appendf(nil, `defaults
  mode http
  retries 0
  timeout connect 2s
  timeout check 2s
  timeout client 60s
  timeout server 60s
frontend locks
  bind 127.0.0.1:%d
  monitor-uri /monitor-%d
  default_backend servers
backend servers
  balance roundrobin
  option httpchk GET /readyz
  http-check send hdr Host 127.0.0.1
%s`, port, port, backend.String()))
		},
		ready: func(ctx context.Context, _, port int) error {
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s/monitor-%d", loopback(port), port), nil)
			if err != nil {
				return err
			}
			transport := &http.Transport{DisableKeepAlives: true}
			a, err := transport.RoundTrip(r)
			if err != nil {
				return err
			}
			if a.Body.Close(); a.StatusCode != http.StatusOK {
				return errors.New(a.Status)
			}
			return nil
		},
	}.start(ctx, 0)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	return p, nil
}
