package pglock

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/driver/wake"
)

const (
	// markFor is how long a row stays marked as watched, which is how long releases
	// are told after the last waiter has gone.
	markFor = 2 * time.Minute
	// markEvery is how often marks of what is still watched are looked after.
	markEvery = 30 * time.Second
	// markSafe is how long a mark must last yet to be relied on until then.
	markSafe = markEvery + 10*time.Second
)

// marks knows which rows are marked as watched, so that most calls of Watch need
// not ask.
type marks struct {
	s   *Store
	hub *wake.Hub

	mu    sync.Mutex
	until map[string]time.Time // on this process's monotonic clock
	age   int                  // counts how often all was forgotten
}

// mark returns when the row is marked.
func (m *marks) mark(ctx context.Context, resource string) error {
	m.mu.Lock()
	marked := time.Until(m.until[resource]) > markSafe
	m.mu.Unlock()
	if marked {
		return nil
	}
	return m.send(ctx, m.s.fromEither, []string{resource}, true)
}

// send asks for marks. Without wait, rows that others have locked get none.
func (m *marks) send(ctx context.Context, from source, resources []string, wait bool) error {
	m.mu.Lock()
	age := m.age
	m.mu.Unlock()
	got := make(map[string]time.Time, len(resources))
	before := time.Now()
	err := m.s.askBare(ctx, func(ctx context.Context) (*pgxpool.Conn, error) {
		clear(got) // another try
		return from(ctx)
	}, m.s.do.watch, []any{resources, markFor.Microseconds(), wait}, func(rows pgx.Rows) error {
		var resource string
		var remains int64
		err := rows.Scan(&resource, &remains)
		got[resource] = before.Add(time.Duration(remains) * time.Microsecond)
		return err
	})
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if age != m.age {
		return nil // what was said about a server that may be gone
	}
	if m.until == nil {
		m.until = make(map[string]time.Time)
	}
	maps.Copy(m.until, got)
	return nil
}

func (m *marks) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.until)
	m.age++
}

// renew marks what is watched and not marked for long enough.
func (m *marks) renew(ctx context.Context) error {
	resources := m.hub.Resources()
	m.mu.Lock()
	for resource, until := range m.until {
		if time.Until(until) <= 0 {
			delete(m.until, resource)
		}
	}
	resources = slices.DeleteFunc(resources, func(r string) bool { return time.Until(m.until[r]) > markFor/2 })
	m.mu.Unlock()
	for some := range slices.Chunk(resources, chunk) {
		if err := m.send(ctx, m.s.fromOwn, some, false); err != nil {
			return err
		}
	}
	return nil
}

// keep renews marks until ctx ends.
func (m *marks) keep(ctx context.Context) {
	ticks := time.NewTicker(markEvery)
	defer ticks.Stop()
	for {
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return
		}
		sending, cancel := context.WithTimeout(ctx, openTimeout)
		err := m.renew(sending)
		cancel()
		if err != nil && ctx.Err() == nil {
			m.s.log.Warn("holdfast: waiters may have to poll", slog.Any("error", err))
		}
	}
}
