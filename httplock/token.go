package httplock

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

const (
	// rereadAfter is how long a token is used before its file is read again. If the file
	// cannot be read then, as in the middle of a change, the old token stays.
	rereadAfter = time.Second
	// propagation is how long a server may take to learn a new token: it reads its own file
	// each second, and there may be several servers.
	propagation = 5 * time.Second
	// maxToken is the largest number of bytes in a token.
	maxToken = 4096
)

// token is the caller's secret.
type token struct {
	file string // "": the token is constant

	reading sync.Mutex // held while the file is read, which may take long

	mu      sync.Mutex
	value   string // "": no token is sent
	read    time.Time
	changed time.Time
}

// newToken returns the token in the file, or without a file the value.
func newToken(value, file string) (*token, error) {
	t := &token{value: strings.TrimSpace(value), file: file}
	if file == "" {
		return t, checkToken(t.value)
	}
	return t, t.readFile()
}

// get returns the present token, or "".
func (t *token) get() string {
	if value, old := t.present(); !old || !t.reading.TryLock() {
		return value
	}
	defer t.reading.Unlock()
	_ = t.readFile()
	value, _ := t.present()
	return value
}

// propagating reports whether the token in the file was changed so recently that the server
// may know only the old token, or that this store may just have sent the old one.
func (t *token) propagating() bool {
	if t.file == "" {
		return false
	}
	if !t.reading.TryLock() {
		return true // it may be changing
	}
	defer t.reading.Unlock()
	_ = t.readFile()
	t.mu.Lock()
	defer t.mu.Unlock()
	return time.Since(t.changed) < propagation
}

// present returns the token, and whether the file must be read again.
func (t *token) present() (value string, old bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.value, t.file != "" && time.Since(t.read) >= rereadAfter
}

func (t *token) readFile() error {
	text, written, err := readToken(t.file)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.read = time.Now()
	if err != nil {
		return fmt.Errorf("%w: token file: %w", driver.ErrUnusable, err)
	}
	if text == "" {
		return fmt.Errorf("%w: token file %s is empty", driver.ErrUnusable, t.file)
	}
	if err := checkToken(text); err != nil {
		return err
	}
	switch {
	case t.changed.IsZero():
		t.changed = written
		if written.After(t.read) { // by another clock, such as that of a file server
			t.changed = t.read
		}
	case t.value != text:
		t.changed = t.read
	}
	t.value = text
	return nil
}

// readToken returns the token in the file, and when the file was written.
func readToken(file string) (text string, written time.Time, err error) {
	f, err := os.Open(file)
	if err != nil {
		return "", time.Time{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", time.Time{}, err
	}
	all, err := io.ReadAll(io.LimitReader(f, maxToken+1))
	return strings.TrimSpace(string(all)), info.ModTime(), err
}

var errToken = errors.New("the server's token is not one line of printable characters without spaces: use the output of holdfast token")

// checkToken refuses a token that cannot be in a header. Its error does not repeat the
// token.
func checkToken(s string) error {
	if len(s) > maxToken || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fmt.Errorf("%w: %w", driver.ErrInvalid, errToken)
	}
	return nil
}
