package backoff_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/backoff"
)

func TestNext(t *testing.T) {
	for range 100 {
		b := backoff.New(time.Second, 3*time.Second)
		for i, want := range []time.Duration{time.Second, 2 * time.Second, 3 * time.Second, 3 * time.Second} {
			if p := b.Next(); p < want/2 || p >= want+want/2 {
				t.Errorf("pause %d is %v, want %v give or take half", i, p, want)
			}
		}
	}
	var none backoff.Backoff
	if p := none.Next(); p != 0 {
		t.Errorf("the zero value pauses for %v", p)
	}
	short := backoff.New(time.Minute, time.Second)
	if p := short.Next(); p >= 3*time.Second/2 {
		t.Errorf("the first pause is %v, above the limit", p)
	}
}
