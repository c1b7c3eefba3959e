package lock

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// Whatever a server or a proxy says that is not its word on the lock is no answer:
// nothing is held, and nobody else is said to hold it.
func TestStrangeAnswers(t *testing.T) {
	for name, answer := range map[string]struct {
		status int
		body   string
	}{
		"a proxy's page": {http.StatusOK, "<html>hello</html>"},
		"too many":       {http.StatusTooManyRequests, `{"error":{"type":"circuit_breaking_exception","reason":"x"},"status":429}`},
		"unavailable":    {http.StatusServiceUnavailable, `{"error":{"type":"unavailable_shards_exception","reason":"x"},"status":503}`},
		"a conflict":     {http.StatusConflict, `{"error":{"type":"version_conflict_engine_exception","reason":"x"},"status":409}`},
		"bad gateway":    {http.StatusBadGateway, "<html>bad gateway</html>"},
		"cut off":        {http.StatusOK, `{"_index":"i","_id":"r","result":"upd`},
		"not found":      {http.StatusNotFound, "<html>not found</html>"},
		"nothing":        {http.StatusOK, ""},
		"no such user":   {http.StatusUnauthorized, `{"error":{"type":"security_exception","reason":"x"},"status":401}`},
		"half a noop":    {http.StatusOK, `{"_index":"i","_id":"r","result":"noop"}`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				defer time.Sleep(patience) // until it has given up
				l := NewLock(saying(func(req *http.Request) (*http.Response, error) {
					return &http.Response{
						StatusCode: answer.status, Header: http.Header{"Content-Type": {"application/json"}},
						Body: io.NopCloser(strings.NewReader(answer.body)), Request: req,
					}, nil
				}), "r").WithOwner("me")
				for range 2 {
					if err := l.Acquire(t.Context(), time.Hour); err == nil || errors.Is(err, driver.ErrHeld) || errors.Is(err, driver.ErrLost) {
						t.Errorf("error %v", err)
					}
					if l.IsAcquired() || !l.IsReleased() || l.Release() != nil || l.MustRelease() == nil {
						t.Error("it counts as held")
					}
				}
			})
		})
	}
}

// saying is a client whose server says what a test wants.
type saying func(*http.Request) (*http.Response, error)

func (s saying) Perform(req *http.Request) (*http.Response, error) { return s(req) }
