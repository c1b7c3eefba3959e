package engines

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

var serveKind = &kind{name: "serve"}

// Serve is a process of holdfast serve for one test, which may stop it.
type Serve struct{ own }

// NewServe starts a server for the locks of a store. It ends with the test. program is the
// command holdfast, and arguments are additional arguments for its serve. The server accepts
// requests for every port of 127.0.0.1, so that a proxy can be put in front of it.
func NewServe(t testing.TB, program, store string, arguments ...string) *Serve {
	t.Helper()
	folder, err := nodeFolder(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	s := &Serve{own{kind: serveKind, folder: folder}}
	command := append([]string{program, "serve", "--store", store, "--host", "127.0.0.1"}, arguments...)
	s.start = native{
		name: "holdfast serve", folder: folder, crash: syscall.SIGKILL,
		url: func(port int) string { return "http://" + loopback(port) },
		command: func(port int) ([]string, error) {
			return append(slices.Clip(command), "--listen", loopback(port)), nil
		},
		ready: func(context.Context, int, int) error {
			said, err := s.log()
			if err == nil && !bytes.Contains(said, []byte("holdfast: ready\n")) {
				err = errors.New("it is not ready")
			}
			return err
		},
	}.start
	s.endWithTest(t)
	s.begin(t, s.start, 0)
	return s
}

// log returns the server's output since its start.
func (s *Serve) log() ([]byte, error) { return os.ReadFile(filepath.Join(s.folder, "log")) }

// Address returns the address where the server listens.
func (s *Serve) Address() string { return strings.TrimPrefix(s.URL, "http://") }

// Terminate asks the server to end, and fails the test unless it exits with 0.
func (s *Serve) Terminate(t testing.TB) {
	t.Helper()
	if s.process == nil {
		t.Fatal("the server is stopped")
	}
	err := s.process.terminate()
	s.process = nil
	if err != nil {
		said, _ := s.log() // without a log, the message is shorter
		t.Errorf("holdfast serve did not end as it should: %v\n%s", err, said)
	}
}
