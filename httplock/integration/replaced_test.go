package httplock_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock/wire"
	"github.com/holdfast-go/holdfast/lab/ask"
	"github.com/holdfast-go/holdfast/lab/engines"
	"github.com/holdfast-go/holdfast/redislock"
	"github.com/holdfast-go/holdfast/server"
	"github.com/holdfast-go/holdfast/server/health"
	"github.com/holdfast-go/holdfast/sqlitelock"
)

// A server in front of a store that loses its data grants nothing more, and says so.
func TestStoreLosesItsData(t *testing.T) {
	for name, c := range map[string]struct {
		// open returns the store, and what takes its data away.
		open  func(t *testing.T) (store driver.Store, lose func())
		level health.Level
		says  string
	}{
		"redis restarts empty": {emptyRedis, health.Replaced, "has lost its data"},
		"redis is flushed":     {flushedRedis, health.Replaced, "has lost its data"},
		"schema is dropped":    {droppedSchema, health.Failing, "store cannot be used"},
		"and made again":       {newSchema, health.Replaced, "has lost its data"},
		"file is replaced":     {replacedFile, health.Failing, "store cannot be used"},
	} {
		t.Run(name, func(t *testing.T) {
			store, lose := c.open(t)
			log := health.New()
			s, err := server.New(store, &server.Options{Health: log})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			if err := s.WaitReady(t.Context()); err != nil {
				t.Fatal(err)
			}
			var hold wire.Grant
			if code, body := post(t, s, wire.AcquirePath, wire.AcquireRequest{Resource: "r", TTLMs: 600_000}); code != http.StatusOK {
				t.Fatalf("%d %s", code, body)
			} else if err := json.Unmarshal(body, &hold); err != nil {
				t.Fatal(err)
			}
			lose()
			ask.Until(t, "it is noticed", func() bool {
				// As its holder does.
				post(t, s, wire.RenewPath, wire.RenewRequest{Holds: []wire.Renewal{{Ref: wire.Ref{
					Resource: "r", LockID: hold.LockID, HoldID: hold.HoldID, Token: hold.Token,
				}}}})
				return log.Now().Level == c.level
			})
			for range 3 {
				code, body := post(t, s, wire.AcquirePath, wire.AcquireRequest{Resource: "r"})
				if code < 500 || !strings.Contains(string(body)+log.Now().Says(), c.says) || log.Now().Level != c.level {
					t.Errorf("%d %s; %v: %s", code, body, log.Now().Level, log.Now().Says())
				}
			}
		})
	}
}

func post(t *testing.T, s *server.Server, path string, v any) (code int, body []byte) {
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, bytes.NewReader(text))
	r.Header.Set("Content-Type", wire.JSON)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Code, w.Body.Bytes()
}

func redisOf(t *testing.T, url string) *redis.Client {
	t.Helper()
	o, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(o)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func emptyRedis(t *testing.T) (driver.Store, func()) {
	s := engines.NewRedis(t)
	return redislock.New(redisOf(t, s.URL), nil), func() { s.Empty(t) }
}

func flushedRedis(t *testing.T) (driver.Store, func()) {
	client := redisOf(t, engines.NewRedis(t).URL)
	return redislock.New(client, nil), func() {
		if err := client.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

func droppedSchema(t *testing.T) (driver.Store, func()) {
	store, _, drop := schemaThatIsDropped(t)
	return store, drop
}

func newSchema(t *testing.T) (driver.Store, func()) {
	store, b, drop := schemaThatIsDropped(t)
	return store, func() {
		drop()
		if err := opened(t, b).(driver.Initializer).Init(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func schemaThatIsDropped(t *testing.T) (store driver.Store, b *behind, drop func()) {
	url := engines.PostgresDatabase(t)
	b = inDatabase(url)
	return opened(t, b), b, func() {
		conn, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(t.Context())
		if _, err := conn.Exec(t.Context(), `DO $$ DECLARE s text; BEGIN
			FOR s IN SELECT nspname FROM pg_namespace WHERE nspname LIKE 's\_%' LOOP EXECUTE format('DROP SCHEMA %I CASCADE', s); END LOOP; END $$`); err != nil {
			t.Fatal(err)
		}
	}
}

func opened(t *testing.T, b *behind) driver.Store {
	store := b.open(t)
	t.Cleanup(func() { _ = store.Close() })
	return store
}

func replacedFile(t *testing.T) (driver.Store, func()) {
	path, other := filepath.Join(t.TempDir(), "locks.db"), filepath.Join(t.TempDir(), "locks.db")
	store := openFile(t, path)
	return store, func() {
		if err := openFile(t, other).(driver.Initializer).Init(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(other, path); err != nil {
			t.Fatal(err)
		}
	}
}

func openFile(t *testing.T, path string) driver.Store {
	t.Helper()
	s, err := sqlitelock.Open(t.Context(), path, &sqlitelock.Options{BusyTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}
