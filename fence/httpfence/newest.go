package httpfence

import (
	"context"
	"fmt"
	"sync"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
)

// Newest keeps the newest token of each resource. Its methods may be called concurrently.
// It must never forget a token: otherwise the Handler accepts older ones.
type Newest interface {
	// Load returns the newest token of the resource, or 0 if there is none. It sees each
	// Raise that has returned nil before.
	Load(ctx context.Context, resource string) (uint64, error)
	// Raise makes token the newest one. The error is holdfast.ErrStale if there is a
	// newer one, and nil if token is already the newest.
	Raise(ctx context.Context, resource string, token uint64) error
}

// Memory keeps the newest tokens in this process, and forgets them when it ends. So it
// fences only the requests through this process: with two instances of a service, each
// knows only its own requests. After a restart it again accepts every token that
// Options.Trust accepts, with Held the tokens of live holds.
//
// It keeps the name and the token of every resource that had a trusted request, and never
// drops them. Its zero value is empty and ready to use.
type Memory struct {
	mu     sync.RWMutex
	newest map[string]uint64
}

// Load implements Newest.
func (m *Memory) Load(ctx context.Context, resource string) (uint64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.newest[resource], nil
}

// Raise implements Newest.
func (m *Memory) Raise(ctx context.Context, resource string, token uint64) error {
	if err := valid(resource, token); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if seen := m.newest[resource]; token < seen {
		return stale(resource, token, seen)
	}
	if m.newest == nil {
		m.newest = make(map[string]uint64)
	}
	m.newest[resource] = token
	return nil
}

// valid checks the arguments of Raise.
func valid(resource string, token uint64) error {
	if token == 0 || token > driver.MaxToken {
		return fmt.Errorf("httpfence: %w: %d is not a token", holdfast.ErrInvalid, token)
	}
	if err := driver.ValidResource(resource); err != nil {
		return fmt.Errorf("httpfence: %w", err)
	}
	return nil
}

func stale(resource string, token, seen uint64) error {
	return fmt.Errorf("httpfence: %w: token %d of %q has been seen, which is larger than %d", holdfast.ErrStale, seen, resource, token)
}

// Format implements fmt.Formatter. It prints only the name of the type.
func (m *Memory) Format(f fmt.State, _ rune) { fmt.Fprint(f, "httpfence.Memory") }
