//go:build linux

package main

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/lab/command"
	"github.com/holdfast-go/holdfast/server/access"
	"github.com/holdfast-go/holdfast/sqlitelock"
)

// ways are the ways to the server: see the package.
var ways = []string{"auth", "open", "socket"}

// held is how many holds there are that nobody renews.
const held = 20_000

// nobody is the user of a server whose socket has two.
const nobody = 65534

// The server has the first processor alone if there are two.
var callersOn = fmt.Sprintf("%d-%d", min(1, runtime.NumCPU()-1), runtime.NumCPU()-1)

// prepared is what all servers are started with.
type prepared struct {
	dir, program string
	tokens       map[string]string // by caller
}

func prepare(dir string) (*prepared, error) {
	p := &prepared{dir: dir, tokens: map[string]string{}}
	ctx := context.Background()
	var err error
	if err = os.Chmod(dir, 0o755); err != nil { // nobody runs the program
		return nil, err
	}
	if p.program, err = command.Build(ctx, dir, nil); err != nil {
		return nil, err
	}
	if err := p.makeAuth(); err != nil {
		return nil, err
	}
	if err := p.makeCertificate(); err != nil {
		return nil, err
	}
	store, err := sqlitelock.Open(ctx, p.file("locks.db"), nil)
	if err != nil {
		return nil, err
	}
	for i := range held {
		q := driver.AcquireRequest{Resource: fmt.Sprintf("held/%d", i), LockID: "x", HoldID: driver.NewHoldID(), TTL: time.Hour}
		if _, err := store.Acquire(ctx, q); err != nil {
			return nil, err
		}
	}
	return p, store.Close()
}

func (p *prepared) file(name string) string { return filepath.Join(p.dir, name) }

// makeAuth writes an auth file with the other caller, and a greedy one for each attack.
func (p *prepared) makeAuth() error {
	var callers []map[string]any
	for _, name := range append(attacks(), "other") {
		token, entry, err := access.NewToken(name)
		if err != nil {
			return err
		}
		var caller map[string]any
		if err := json.Unmarshal([]byte(entry), &caller); err != nil {
			return err
		}
		caller["rules"] = json.RawMessage(`[{"resources":"small/*","may":["lock"]},{"resources":"*","may":["look"]}]`)
		if name == "other" {
			caller["rules"] = json.RawMessage(`[{"resources":"*","may":["lock","look"]}]`)
		}
		callers, p.tokens[name] = append(callers, caller), token
	}
	text, err := json.Marshal(map[string]any{"callers": callers})
	if err != nil {
		return err
	}
	return os.WriteFile(p.file("auth.json"), text, 0o600)
}

func (p *prepared) makeCertificate() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	made := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	cert, err := x509.CreateCertificate(rand.Reader, made, made, key.Public(), key)
	if err != nil {
		return err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	if err := os.WriteFile(p.file("key.pem"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600); err != nil {
		return err
	}
	return os.WriteFile(p.file("cert.pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), 0o600)
}

// served is a server that runs.
type served struct {
	way, dir, addr, socket string
	process                *exec.Cmd
	cancel                 context.CancelFunc
}

var listening = regexp.MustCompile(`listening on https?://(127\.\S+?), `)

// serve starts a server on one processor, for a copy of the store.
func (p *prepared) serve(ctx context.Context, way, name string) (*served, error) {
	ctx, cancel := context.WithCancel(ctx)
	s := &served{way: way, dir: p.file(way + "-" + name), cancel: cancel}
	s.socket = filepath.Join(s.dir, "socket")
	args := []string{
		"-c", "0", p.program, "serve", "--store", "sqlite:" + filepath.Join(s.dir, "locks.db"), "--listen", "127.0.0.1:0",
		"--audit", filepath.Join(s.dir, "audit"), "--history", filepath.Join(s.dir, "history.db"),
	}
	switch way {
	case "auth":
		s.socket = ""
		args = append(args, "--auth", p.file("auth.json"), "--tls-cert", p.file("cert.pem"), "--tls-key", p.file("key.pem"))
	default:
		args = append(args, "--unix", s.socket)
	}
	if err := os.Mkdir(s.dir, 0o700); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(p.file("locks.db"))
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(s.dir, "locks.db"), text, 0o600); err != nil {
		return nil, err
	}
	s.process = exec.CommandContext(ctx, "taskset", args...)
	if way == "socket" {
		s.process.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		for _, path := range []string{s.dir, filepath.Join(s.dir, "locks.db")} {
			if err := os.Chown(path, nobody, nobody); err != nil {
				return nil, err
			}
		}
	}
	said, err := s.process.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := s.process.Start(); err != nil {
		return nil, err
	}
	printed := ""
	for lines := bufio.NewScanner(said); lines.Scan(); {
		printed += lines.Text() + "\n"
		if m := listening.FindStringSubmatch(lines.Text()); m != nil {
			s.addr = m[1]
		}
		if lines.Text() == "holdfast: ready" && s.addr != "" {
			go func() { _, _ = io.Copy(io.Discard, said) }()
			return s, nil
		}
	}
	s.end()
	return nil, fmt.Errorf("the server does not run: %s", strings.TrimSpace(printed))
}

func (s *served) end() {
	s.cancel()
	_ = s.process.Wait()
	_ = os.RemoveAll(s.dir)
}

// files returns how many bytes the audit and the history have.
func (s *served) files() (n int64) {
	for _, name := range []string{"audit", "history.db", "history.db-wal"} {
		if info, err := os.Stat(filepath.Join(s.dir, name)); err == nil {
			n += info.Size()
		}
	}
	return n
}

// usual returns how many MiB a second the files grow by the locks of the other caller: two lines
// of the audit for each, and a row of the history.
func (s *served) usual(r *result) float64 { return r.other.rate * 2000 / (1 << 20) }

// caller returns the one that is measured, or the greedy one.
func (s *served) caller(p *prepared, greedy bool, attack string) *caller {
	name := "other"
	if greedy {
		name = attack
	}
	switch {
	case s.way == "auth":
		return newCaller(s.way, s.addr, "", p.tokens[name])
	case s.way == "open" && greedy:
		return newCaller(s.way, s.addr, "", "")
	}
	return newCaller(s.way, s.addr, s.socket, "")
}
