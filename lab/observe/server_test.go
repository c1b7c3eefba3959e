//go:build unix

package observe_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// The metrics of holdfast serve are valid for Prometheus and complete in docs/server-operations.md.
// They contain no resource, caller or ID.
func TestServerMetrics(t *testing.T) {
	s := startServer(t)
	const resource = "a-resource-that-nobody-sees"
	s.post("/v1/acquire", `{"resource":"`+resource+`","lockId":"a-lock-id"}`, http.StatusOK)
	s.post("/v1/acquire", `{"resource":"`+resource+`"}`, http.StatusConflict)
	s.post("/v1/acquire", `{"resource":`, http.StatusBadRequest)
	if answer := s.ask(http.MethodGet, "/v1/holds", "", ""); answer.status != http.StatusUnauthorized {
		t.Errorf("without a token: %d", answer.status)
	}
	page := s.ask(http.MethodGet, "/metrics", s.token, "")
	// The server writes the history after it has answered, and for that looks at the store.
	for end := time.Now().Add(time.Minute); time.Now().Before(end) && (bytes.Contains(page.body, []byte("holdfast_server_history_events_total 0")) ||
		!bytes.Contains(page.body, []byte("holdfast_server_look_age_seconds"))); {
		page = s.ask(http.MethodGet, "/metrics", s.token, "")
	}
	if page.status != http.StatusOK {
		t.Fatalf("%d: %s", page.status, page.body)
	}
	for _, hidden := range []string{resource, "a-lock-id", "a-caller", s.token} {
		if bytes.Contains(page.body, []byte(hidden)) {
			t.Errorf("the metrics have %q", hidden)
		}
	}
	problems, err := promlint.New(bytes.NewReader(page.body)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(page.body))
	if err != nil {
		t.Fatal(err)
	}
	documented(t, families)
	got := values(families)
	for series, want := range map[string]float64{
		"holdfast_server_requests_total{route=/v1/acquire,outcome=ok}":      1,
		"holdfast_server_requests_total{route=/v1/acquire,outcome=held}":    1,
		"holdfast_server_requests_total{route=/v1/acquire,outcome=invalid}": 1,
		"holdfast_server_request_duration_seconds{route=/v1/acquire}":       3,
		"holdfast_server_refused_total{reason=unauthenticated}":             1,
		"holdfast_server_refused_total{reason=misdirected}":                 0,
		"holdfast_server_store_calls_total{op=acquire,outcome=held}":        1,
		"holdfast_server_waits{}":                                           0,
		"holdfast_server_streams{kind=list}":                                0,
		"holdfast_server_auth_file_ok{}":                                    1,
		"holdfast_server_ready{}":                                           1,
		"holdfast_server_store_replaced{}":                                  0,
		"holdfast_server_store_failing_seconds{}":                           0,
		"holdfast_server_stuck{}":                                           0,
		"holdfast_server_audit_dropped_total{}":                             0,
		"holdfast_server_audit_ok{}":                                        1,
		"holdfast_server_history_events_total{}":                            1,
		"holdfast_server_history_dropped_total{}":                           0,
		"holdfast_server_history_ok{}":                                      1,
	} {
		if v, ok := got[series]; !ok || v != want {
			t.Errorf("%s %v, want %v", series, v, want)
		}
	}
}

// documented compares the names and types of the metrics with the document.
func documented(t *testing.T, families map[string]*dto.MetricFamily) {
	t.Helper()
	text, err := os.ReadFile("../../docs/server-operations.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := make(map[string]string)
	for _, m := range regexp.MustCompile("(?m)^\\| `(holdfast_server_\\w+)` \\| (\\w+) \\|").FindAllStringSubmatch(string(text), -1) {
		rows[m[1]] = m[2]
	}
	for name, f := range families {
		switch kind, ok := rows[name]; {
		case ok && kind != strings.ToLower(f.GetType().String()):
			t.Errorf("%s is a %v, but docs/server-operations.md says %s", name, f.GetType(), kind)
		case !ok && !strings.Contains(string(text), "`"+name+"`"):
			t.Errorf("docs/server-operations.md does not have %s", name)
		}
		delete(rows, name)
	}
	for name := range rows {
		t.Errorf("docs/server-operations.md has %s, which the server has not", name)
	}
}

// served is a running server with one caller.
type served struct {
	*testing.T
	url, token string
	client     *http.Client
}

// startServer starts the real command.
func startServer(t *testing.T) *served {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "holdfast")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".")
	build.Dir = "../../cmd/holdfast"
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var entry bytes.Buffer
	made := exec.CommandContext(t.Context(), program, "token", "a-caller")
	made.Stderr = &entry
	token, err := made.Output()
	if err != nil {
		t.Fatal(err)
	}
	auth := `{"callers":[` + strings.Replace(entry.String(), `"rules":[]`, `"rules":[{"resources":"*","may":["lock","look"]}]`, 1) + `]}`
	if err := os.WriteFile(filepath.Join(dir, "auth.json"), []byte(auth), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "serve", "--store", "./locks.db", "--listen", "127.0.0.1:0",
		"--auth", "auth.json", "--audit", "audit.log", "--history", "history.db", "--drain-delay", "0")
	cmd.Dir = dir
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s := &served{T: t, token: strings.TrimSpace(string(token)), client: &http.Client{Transport: &http.Transport{}}}
	t.Cleanup(func() {
		s.client.CloseIdleConnections()
		_, _ = io.Copy(io.Discard, stderr)
		_ = cmd.Wait() // ended by the context of the test
	})
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		if m := regexp.MustCompile(`listening on (\S+),`).FindStringSubmatch(lines.Text()); m != nil {
			s.url = m[1]
		}
		if lines.Text() == "holdfast: ready" {
			return s
		}
	}
	t.Fatal("the server is not ready: ", lines.Err())
	return nil
}

// answer is an answer of the server.
type answer struct {
	status int
	body   []byte
}

func (s *served) ask(method, path, token, body string) answer {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	got, err := s.client.Do(r)
	if err != nil {
		s.Fatal(err)
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	if err != nil {
		s.Fatal(err)
	}
	return answer{got.StatusCode, text}
}

func (s *served) post(path, body string, want int) {
	s.Helper()
	if got := s.ask(http.MethodPost, path, s.token, body); got.status != want {
		s.Errorf("%s %s: %d, want %d: %s", path, body, got.status, want, got.body)
	}
}
