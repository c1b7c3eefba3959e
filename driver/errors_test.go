package driver

import (
	"context"
	"errors"
	"strings"
	"testing"
)

func TestHeldError(t *testing.T) {
	ann := Status{LockID: "id-1", Details: Details{Owner: "ann", Host: "h1"}}
	for name, c := range map[string]struct {
		err  *HeldError
		says []string
	}{
		"nobody named":   {&HeldError{Resource: "r"}, []string{`"r" is held`}},
		"owner and host": {&HeldError{Resource: "r", Holders: []Status{ann}}, []string{"by ann on h1"}},
		"owner":          {&HeldError{Holders: []Status{{Details: Details{Owner: "ann"}}}}, []string{"by ann"}},
		"lock ID":        {&HeldError{Holders: []Status{{LockID: "id-1"}}}, []string{`lock ID "id-1"`}},
		"several":        {&HeldError{Holders: []Status{ann, ann, ann}}, []string{"ann on h1 and 2 more"}},
		"itself":         {&HeldError{Holders: []Status{ann}, BySelf: true}, []string{"by this caller or its lock ID"}},
		"another limit": {&HeldError{Holders: []Status{{Details: Details{Owner: "ann"}, Mode: Shared, Limit: 3}}, LimitDiffers: true},
			[]string{"by ann with limit 3, which is not"}},
		"no limit": {&HeldError{Holders: []Status{{Details: Details{Owner: "ann"}, Mode: Shared}}, LimitDiffers: true},
			[]string{"by ann without a limit, but"}},
		"a limit not told": {&HeldError{Resource: "r", LimitDiffers: true}, []string{`"r" is held with another limit than`}},
		"free": {&HeldError{Resource: "r", Ahead: []Place{{Owner: "bob", Host: "h2"}, {Owner: "cy"}}},
			[]string{`"r" is free, but bob on h2 waits for it first`}},
		"shared": {&HeldError{Resource: "r", Holders: []Status{ann, ann}, Ahead: []Place{{Owner: "bob"}}},
			[]string{`"r" is shared by ann on h1 and 1 more, but bob waits for it first`}},
		"held, and waiters ahead": {&HeldError{Resource: "r", Holders: []Status{ann}, Ahead: []Place{{Owner: "bob"}}, RetryAfter: Forever},
			[]string{`"r" is held by ann on h1`}},
		"wait was given up": {&HeldError{Holders: []Status{ann}, Cause: context.DeadlineExceeded},
			[]string{"ann", "gave up waiting", "deadline exceeded"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, part := range c.says {
				if !strings.Contains(c.err.Error(), part) {
					t.Errorf("says %q, want %q in it", c.err, part)
				}
			}
			if !errors.Is(c.err, ErrHeld) {
				t.Error("the error does not match ErrHeld")
			}
			if got := errors.Is(c.err, context.DeadlineExceeded); got != (c.err.Cause != nil) {
				t.Errorf("is the context's error: %v", got)
			}
			if errors.Is(c.err, ErrLost) {
				t.Error("the error matches ErrLost")
			}
		})
	}
}
