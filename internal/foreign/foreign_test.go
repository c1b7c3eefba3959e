package foreign_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/foreign"
)

func TestError(t *testing.T) {
	stale := errors.New("stale")
	live := t.Context()
	dead, cancel := context.WithCancelCause(t.Context())
	cancel(driver.ErrLost)
	late, end := context.WithTimeout(t.Context(), 0)
	defer end()
	held := &driver.HeldError{Resource: "r"}
	for _, c := range []struct {
		ctx  context.Context
		err  error
		is   []error
		not  []error
		text string
	}{
		{live, io.EOF, []error{io.EOF}, nil, "EOF"},
		{live, held, nil, []error{driver.ErrHeld}, held.Error()},
		{live, fmt.Errorf("dial: %w", stale), nil, []error{stale}, "dial: stale"},
		{dead, context.Canceled, []error{context.Canceled}, nil, "context canceled"},
		{dead, context.Cause(dead), []error{context.Canceled}, []error{driver.ErrLost}, "context canceled: lost"},
		{dead, fmt.Errorf("%w: %w", context.Canceled, held), []error{context.Canceled}, []error{driver.ErrHeld}, "context canceled: " + held.Error()},
		{late, io.EOF, []error{context.DeadlineExceeded}, []error{context.Canceled, io.EOF}, "context deadline exceeded: EOF"},
	} {
		err := foreign.Error(c.ctx, c.err, stale)
		if err.Error() != c.text {
			t.Errorf("%v: got %q, want %q", c.err, err, c.text)
		}
		for _, want := range c.is {
			if !errors.Is(err, want) {
				t.Errorf("%v does not match %v", err, want)
			}
		}
		for _, not := range c.not {
			if errors.Is(err, not) {
				t.Errorf("%v matches %v", err, not)
			}
		}
		if as := (*driver.HeldError)(nil); errors.As(err, &as) {
			t.Errorf("%v is a HeldError", err)
		}
	}
	if err := foreign.Error(dead, nil); err != nil {
		t.Errorf("a nil error became %v", err)
	}
}
