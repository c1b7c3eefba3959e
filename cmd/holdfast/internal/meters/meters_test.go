package meters

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/server/health"
	"github.com/holdfast-go/holdfast/server/sight"
)

func TestOutcome(t *testing.T) {
	for want, err := range map[string]error{
		"ok":          nil,
		"held":        &driver.HeldError{Resource: "r"},
		"invalid":     driver.ErrInvalid,
		"damaged":     driver.ErrDamaged,
		"unusable":    driver.ErrUnusable,
		"unsupported": driver.ErrUnsupported,
		"canceled":    context.Canceled,
		"timeout":     context.DeadlineExceeded,
		"unknown":     errors.New("connection refused"),
	} {
		if err != nil {
			err = fmt.Errorf("the store: %w", err)
		}
		if got := outcome(err); got != want {
			t.Errorf("%v is %s, want %s", err, got, want)
		}
	}
}

// What a server knows of its store is read at each scrape.
func TestHealth(t *testing.T) {
	m, ready, last := New(), true, new(sight.Sight)
	m.ShowLooks(func() *sight.Sight { return last })
	has := func(values map[string]string) {
		t.Helper()
		w := httptest.NewRecorder()
		m.ServeHTTP(w, nil)
		for name, want := range values {
			_, got, _ := strings.Cut(w.Body.String(), "\nholdfast_server_"+name+" ")
			if got, _, _ = strings.Cut(got, "\n"); got != want {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
	}
	synctest.Test(t, func(t *testing.T) {
		log := health.New()
		m.ShowServer(func() bool { return ready }, log.Now)
		log.StoreCall(t.Context(), "acquire", 0, nil)
		has(map[string]string{"ready": "1", "store_replaced": "0", "store_failing_seconds": "0", "stuck": "", "look_age_seconds": ""})
		time.Sleep(10 * time.Second)
		log.StoreCall(t.Context(), "acquire", 10*time.Second, context.DeadlineExceeded)
		time.Sleep(5 * time.Second)
		has(map[string]string{"ready": "1", "store_failing_seconds": "15"})
		ready = false
		log.Replaced(time.Hour, false)
		has(map[string]string{"ready": "0", "store_replaced": "1", "store_failing_seconds": "0"})
		last = &sight.Sight{At: time.Now(), Holds: []driver.Status{{Resource: "r", Left: driver.Forever, Seen: time.Now(), Created: time.Now().Add(-time.Hour)}},
			Waiters: []driver.Place{{Resource: "r"}}}
		time.Sleep(7 * time.Second)
		has(map[string]string{"stuck": "1", "look_age_seconds": "7"})
	})
}
