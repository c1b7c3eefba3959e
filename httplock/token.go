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
	// readAgain is how long the token of a file is used before the file is read again. If
	// it cannot be read then, as in the middle of a change, the old token stays.
	readAgain = time.Second
	// maxToken is the longest token, in bytes.
	maxToken = 4096
)

// token is the caller's secret.
type token struct {
	file string // "": it is constant

	reading sync.Mutex // held by the one that reads the file, which may take its time

	mu    sync.Mutex
	value string // "": none is sent
	read  time.Time
}

// newToken returns the token of the file if there is one, and otherwise the value.
func newToken(value, file string) (*token, error) {
	t := &token{value: value, file: file}
	if file == "" {
		return t, checkToken(value)
	}
	return t, t.readFile()
}

// get returns the token, or "".
func (t *token) get() string {
	if value, old := t.present(); !old || !t.reading.TryLock() {
		return value
	}
	defer t.reading.Unlock()
	_ = t.readFile()
	value, _ := t.present()
	return value
}

// present returns the token, and whether to read the file again.
func (t *token) present() (value string, old bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.value, t.file != "" && time.Since(t.read) >= readAgain
}

func (t *token) readFile() error {
	text, err := readToken(t.file)
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
	t.value = text
	return nil
}

func readToken(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxToken+1))
	return strings.TrimSpace(string(text)), err
}

var errToken = errors.New("the server's token is not one line of printable characters without spaces: use the output of holdfast token")

// checkToken refuses what cannot be in a header. Its error does not repeat the token.
func checkToken(s string) error {
	if len(s) > maxToken || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fmt.Errorf("%w: %w", driver.ErrInvalid, errToken)
	}
	return nil
}
