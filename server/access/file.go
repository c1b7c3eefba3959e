package access

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/server/internal/follow"
)

// maxFile is how many bytes a file has at most: some 4,000 callers.
const maxFile = 1 << 20

// File is an auth file: who may do what. It is read again every second. A caller that is
// removed or changed has its channel closed at once. A file that cannot be read or used
// changes nothing, whether it is missing, empty, half written or wrong: the rights that
// were in force remain so, which is logged, and Err says why.
//
// The file may be replaced by a rename or behind a symbolic link, as Kubernetes does, which
// is better than to write into it: all changes then count at the same moment.
type File struct {
	path   string
	log    *slog.Logger
	policy atomic.Pointer[policy]
	files  *follow.Files
	ownKey [sessionKeyBytes]byte // of cookies, where the file has none: other servers do not take them
}

// OpenFile reads an auth file. Users other than its owner must not be able to write it. The
// caller closes the File. The logger, if any, gets each change of the file and each reason why
// it is not in force.
func OpenFile(path string, log *slog.Logger) (*File, error) {
	f := &File{path: path, log: cmp.Or(log, slog.New(slog.DiscardHandler))}
	text, err := f.read()
	if err != nil {
		return nil, err
	}
	p, err := parsePolicy([]byte(text))
	if err != nil {
		return nil, f.explain(err)
	}
	_, _ = rand.Read(f.ownKey[:]) // never fails
	f.policy.Store(p)
	f.files = follow.Start(text, f.read, f.apply, f.log)
	return f, nil
}

// Format implements fmt.Formatter. It prints the path.
func (f *File) Format(s fmt.State, _ rune) { fmt.Fprint(s, "auth file ", f.path) }

// Close stops reading the file. The rights remain as they are.
func (f *File) Close() { f.files.Close() }

// Err returns nil if the file is in force as it is now, and otherwise why it is not.
func (f *File) Err() error { return f.files.Err() }

func (f *File) explain(err error) error {
	return fmt.Errorf("auth file %s cannot be used: %w", f.path, err)
}

func (f *File) read() (string, error) {
	text, err := readFile(f.path)
	if err != nil {
		return "", f.explain(err)
	}
	return string(text), nil
}

func (f *File) apply(text string) error {
	p, err := parsePolicy([]byte(text))
	if err != nil {
		return f.explain(err)
	}
	changed := p.succeed(f.policy.Load())
	f.policy.Store(p)
	names := make([]string, 0, len(changed))
	for _, m := range changed {
		close(m.changed)
		names = append(names, m.entry.Name)
	}
	slices.Sort(names)
	if len(names) > mostLogged {
		names = append(names[:mostLogged], "…")
	}
	f.log.Info("the auth file has been read again", "file", f.path, "callers", len(p.callers), "changedOrRemoved", len(changed), "names", names)
	return nil
}

// mostLogged is how many callers a line of the log names.
const mostLogged = 20

// LongestTTL returns the longest TTL, that has an end, for which any caller may ask, and whether
// some may have holds without an end.
func (f *File) LongestTTL() (longest time.Duration, endless bool) {
	for _, m := range f.policy.Load().callers {
		for _, r := range m.rules {
			switch {
			case !r.may[Lock]:
			case r.maxTTL == driver.Forever:
				endless = true
			default:
				longest = max(longest, r.maxTTL)
			}
		}
	}
	return longest, endless
}

// readFile reads a file that only its owner can write. A reader of half a file is harmless:
// no beginning of a JSON object is one.
func readFile(path string) ([]byte, error) {
	// Looked at first: to open a pipe waits for a writer.
	if info, err := os.Stat(path); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if others := info.Mode().Perm() & 0o022; others != 0 && runtime.GOOS != "windows" {
		return nil, fmt.Errorf("users other than its owner can write it (mode %04o): chmod go-w", info.Mode().Perm())
	}
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("it has more than %d bytes", maxFile)
	}
	if info.Mode().Perm()&0o004 != 0 && runtime.GOOS != "windows" && bytes.Contains(text, []byte(`"sessionKey"`)) {
		return nil, fmt.Errorf("every user can read it (mode %04o), and who has its sessionKey can sign in as anybody: chmod o-r", info.Mode().Perm())
	}
	return text, nil
}

// Identify returns the caller whose token or client certificate the request has. It is an
// Identify. A request that has both of different callers has none, and so has one whose
// token is not known, whatever its certificate.
func (f *File) Identify(r *http.Request) (Caller, error) {
	p := f.policy.Load()
	token, err := bearer(r.Header)
	if err != nil {
		return nil, err
	}
	m, by, err := p.byCertificate(r.TLS)
	if err != nil {
		return nil, err
	}
	if token != "" {
		certified := m
		by = credential{}
		if m, by.token, err = p.shown(token); err != nil {
			return nil, err
		}
		if certified != nil && certified != m {
			return nil, fmt.Errorf("%w: the token and the client certificate are those of different callers", ErrAnonymous)
		}
	}
	if m == nil {
		return nil, fmt.Errorf("%w: the request has neither a token nor a client certificate with the name of a caller", ErrAnonymous)
	}
	return &caller{file: f, name: m.entry.Name, by: by}, nil
}

// caller is one that a file knows. It has rights as long as the file still has what it was
// known by.
type caller struct {
	file  *File
	name  string
	by    credential
	until time.Time // of a session
}

// Until implements Session.
func (c *caller) Until() time.Time { return c.until }

// now returns what the file says of the caller.
func (c *caller) now() *member {
	if m := c.file.policy.Load().known[c.by]; m != nil && m.entry.Name == c.name {
		return m
	}
	return removed
}

func (c *caller) Name() string { return c.name }

func (c *caller) May(v Verb, resource string) bool { return c.now().may(v, resource) }

func (c *caller) MayAll(v Verb) bool { return c.now().mayAll(v) }

func (c *caller) MaxTTL(resource string) time.Duration { return c.now().maxTTL(resource) }

func (c *caller) Changed() <-chan struct{} { return c.now().changed }

// removed is what a file says of a caller that it no longer has: it has no rules.
var removed = func() *member {
	m := &member{changed: make(chan struct{})}
	close(m.changed)
	return m
}()
