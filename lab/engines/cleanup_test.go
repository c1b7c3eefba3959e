package engines_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/lab/engines"
)

// A test's data on a server, which may be a user's own, are deleted with the test.

func TestRedisKeysGoWithTheTest(t *testing.T) {
	options, err := redis.ParseURL(engines.Redis(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(options)
	defer client.Close()
	other := engines.RedisPrefix(t) + "stays"
	set := func(key string) {
		t.Helper()
		if err := client.Set(t.Context(), key, "1", 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	set(other)
	var prefix string
	t.Run("inner", func(t *testing.T) {
		prefix = engines.RedisPrefix(t)
		set(prefix + "1")
		set(prefix + "2")
	})
	if keys, err := client.Keys(t.Context(), prefix+"*").Result(); err != nil || len(keys) != 0 {
		t.Errorf("%d keys are left (%v)", len(keys), err)
	}
	if n, err := client.Exists(t.Context(), other).Result(); err != nil || n != 1 {
		t.Errorf("the key of another test is gone (%v)", err)
	}
}

func TestPostgresDatabaseGoesWithTheTest(t *testing.T) {
	engines.Postgres(t)
	var url string
	t.Run("inner", func(t *testing.T) {
		url = engines.PostgresDatabase(t)
		if _, err := pgx.Connect(t.Context(), url); err != nil { // and left open
			t.Fatal(err)
		}
	})
	if _, err := pgx.Connect(t.Context(), url); err == nil || !strings.Contains(err.Error(), "3D000") {
		t.Errorf("connecting to the database after the test: %v", err)
	}
}

func TestSearchIndexGoesWithTheTest(t *testing.T) {
	engines.SearchEngines(t, func(t *testing.T, e engines.Engine) {
		t.Cleanup(http.DefaultClient.CloseIdleConnections)
		status := func(method, url string) int {
			t.Helper()
			request, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
			return response.StatusCode
		}
		var index string
		t.Run("inner", func(t *testing.T) {
			index = e.URL + "/" + engines.SearchIndex(t, e)
			if got := status(http.MethodPut, index); got != http.StatusOK {
				t.Fatalf("making the index: status %d", got)
			}
		})
		if got := status(http.MethodGet, index); got != http.StatusNotFound {
			t.Errorf("status %d after the test, want 404", got)
		}
	})
}
