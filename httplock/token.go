package httplock

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
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
	file    string     // "": the token is constant
	reading sync.Mutex // held while the file is read, which may take long
	last    atomic.Pointer[reading]
}

// reading is what was read last.
type reading struct {
	value   string // "": no token is sent
	at      time.Time
	changed time.Time
}

// newToken returns the token in the file, or without a file the value.
func newToken(value, file string) (*token, error) {
	t := &token{file: file}
	t.last.Store(&reading{value: strings.TrimSpace(value)})
	if file == "" {
		return t, checkToken(t.last.Load().value)
	}
	return t, t.readFile()
}

// get returns the present token, or "".
func (t *token) get() string {
	if t.file != "" && time.Since(t.last.Load().at) >= rereadAfter && t.reading.TryLock() {
		_ = t.readFile()
		t.reading.Unlock()
	}
	return t.last.Load().value
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
	return time.Since(t.last.Load().changed) < propagation
}

// readFile reads the file. Without a token in it, the last one stays.
func (t *token) readFile() error {
	all, err := os.ReadFile(t.file)
	text, last := strings.TrimSpace(string(all)), *t.last.Load()
	last.at = time.Now()
	defer func() { t.last.Store(&last) }()
	switch {
	case err != nil:
		return fmt.Errorf("%w: token file: %w", driver.ErrUnusable, err)
	case text == "":
		return fmt.Errorf("%w: token file %s is empty", driver.ErrUnusable, t.file)
	}
	if err := checkToken(text); err != nil {
		return err
	}
	info, err := os.Stat(t.file)
	switch {
	case last.changed.IsZero() && err == nil && info.ModTime().Before(last.at): // else by another clock, such as that of a file server
		last.changed = info.ModTime()
	case last.changed.IsZero() || last.value != text:
		last.changed = last.at
	}
	last.value = text
	return nil
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
