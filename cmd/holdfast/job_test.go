package main

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

func TestGrace(t *testing.T) {
	for _, c := range []struct{ ttl, left, want time.Duration }{
		{30 * time.Second, 0, 5 * time.Second},                // the deadline has passed
		{12 * time.Second, 0, 2 * time.Second},                // a sixth
		{time.Hour, 0, 5 * time.Second},                       // at most
		{30 * time.Second, 20 * time.Second, 5 * time.Second}, // forced, the deadline is far
		{30 * time.Second, time.Second, time.Second},          // forced, the deadline is near
		{60 * time.Millisecond, 0, 10 * time.Millisecond},
	} {
		if got := grace(c.ttl, c.left); got != c.want {
			t.Errorf("grace(%v, %v) = %v, want %v", c.ttl, c.left, got, c.want)
		}
	}
}

func TestDescribe(t *testing.T) {
	ada := holdfast.Status{LockID: "id"}
	ada.Owner, ada.Host, ada.Comment = "ada", "web1", "nightly"
	nobody := holdfast.Status{LockID: "id"}
	for want, holders := range map[string][]holdfast.Status{
		`"r" is held`:                                     nil,
		`"r" is held by ada on web1 (nightly)`:            {ada},
		`"r" is held by ada on web1 (nightly) and 2 more`: {ada, nobody, nobody},
		`"r" is held by lock ID id`:                       {nobody},
	} {
		if got := describe(&holdfast.HeldError{Resource: "r", Holders: holders}); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
