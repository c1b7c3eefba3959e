package engines

import (
	"context"
	"sync"
	"testing"
)

// idlePostgres are servers with a clock that no test has. They end with this
// process.
var idlePostgres struct {
	mu      sync.Mutex
	servers []*process
}

// PostgresClock returns the URL of a database on a server that has a clock of its
// own. Until the end of the test nobody else uses that server; then another test
// gets it, for it takes a second to make one.
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
