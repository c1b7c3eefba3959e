package engines

import (
	"context"
	"sync"
	"testing"
)

// idlePostgres are servers with a clock that no test uses at the moment. They end with this
// process.
var idlePostgres struct {
	mu      sync.Mutex
	servers []*process
}

// PostgresClock returns the URL of a database on a server with a clock of its own. No other
// test uses the server until the test ends; then another test gets it, because starting one
// takes a second.
func PostgresClock(t testing.TB) (databaseURL string, clock *Clock) {
	t.Helper()
	p := takePostgres()
	if p == nil {
		folder, err := unprivilegedFolder(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		newClock(t, folder)
		p, err = newPostgres(context.WithoutCancel(t.Context()), folder, 0, nil)
		postgresKind.need(t, err)
	}
	t.Cleanup(func() {
		idlePostgres.mu.Lock()
		defer idlePostgres.mu.Unlock()
		idlePostgres.servers = append(idlePostgres.servers, p)
	})
	clock = newClock(t, p.folder)
	return postgresDatabase(t, p.url), clock
}

func takePostgres() *process {
	idlePostgres.mu.Lock()
	defer idlePostgres.mu.Unlock()
	n := len(idlePostgres.servers)
	if n == 0 {
		return nil
	}
	p := idlePostgres.servers[n-1]
	idlePostgres.servers = idlePostgres.servers[:n-1]
	return p
}
