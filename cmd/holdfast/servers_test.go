package main

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"github.com/rogpeppe/go-internal/testscript"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/holdfast-go/holdfast/driver"
)

// onServers are the scripts that are true of a server, too: none of them looks
// into the file of locks, or makes it fail.
var onServers = []string{
	"acquire", "command", "environment", "filter", "force", "guard", "others", "renew", "run", "statements", "status", "wait",
}

// TestScriptsOnServers runs them on each server that the tests have.
func TestScriptsOnServers(t *testing.T) {
	if testing.Short() {
		t.Skip("thorough: the scripts once more on each server")
	}
	for name, stores := range map[string]func(t *testing.T, server *url.URL) func(script string) string{
		"mongodb": collections, "opensearch": indices, "elasticsearch": indices, "redis": prefixes,
		"postgres": schemas,
	} {
		t.Run(name, func(t *testing.T) {
			storeURL := stores(t, serverURL(t, name))
			p := scripts(t, func(dir string) string { return storeURL(filepath.Base(dir)) })
			for _, name := range onServers {
				p.Files = append(p.Files, filepath.Join("testdata", "script", name+".txtar"))
			}
			testscript.Run(t, p)
		})
	}
}

// serverURL is that of the server in its variable, or of one that make test has started;
// without one the test ends.
func serverURL(t *testing.T, name string) *url.URL {
	t.Helper()
	variable := "HOLDFAST_TEST_" + strings.ToUpper(name) + "_URL"
	text := os.Getenv(variable)
	if engines := os.Getenv("HOLDFAST_TEST_ENGINES"); text == "" && engines != "" {
		text = startedServer(t, engines, name)
	}
	if text == "" {
		lacks(t, name, variable+" is not set; make engines says how to")
	}
	server, err := driver.ParseURL(text)
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return server
}

// startedServer asks for a server at what make test has started.
func startedServer(t *testing.T, engines, name string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, engines+name, nil)
	check(t, err)
	answer, err := http.DefaultClient.Do(request)
	check(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	check(t, err)
	switch said := strings.TrimSpace(string(text)); answer.StatusCode {
	case http.StatusOK:
		return said
	case http.StatusNotFound:
		lacks(t, name, said)
	default:
		t.Fatalf("%s: %s", answer.Status, said)
	}
	return ""
}

// lacks skips the test, or fails it where HOLDFAST_REQUIRE has the server.
func lacks(t *testing.T, name, what string) {
	t.Helper()
	if slices.Contains(strings.FieldsFunc(os.Getenv("HOLDFAST_REQUIRE"), func(c rune) bool { return c == ',' || c == ' ' }), name) {
		t.Fatalf("%s, but HOLDFAST_REQUIRE has %s", what, name)
	}
	t.Skip(what)
}

// testName is a name of a test's own that every server takes for what has locks.
func testName() string { return "holdfast_test_" + strings.ToLower(rand.Text()) }

// collections gives each script a collection of a database that goes with the test.
func collections(t *testing.T, server *url.URL) func(script string) string {
	client, err := mongo.Connect(options.Client().ApplyURI(server.String()))
	check(t, err)
	database := testName()
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		if err := errors.Join(client.Database(database).Drop(ctx), client.Disconnect(ctx)); err != nil {
			t.Error(err)
		}
	})
	return func(script string) string {
		store := *server
		store.Path = "/" + database
		query := store.Query()
		query.Set("collection", script)
		store.RawQuery = query.Encode()
		return store.String()
	}
}

// indices gives each script an index that goes with the test.
func indices(t *testing.T, server *url.URL) func(script string) string {
	var mu sync.Mutex
	var used []string
	t.Cleanup(func() {
		for _, index := range used {
			request, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodDelete,
				server.JoinPath(index).String()+"?ignore_unavailable=true", nil)
			check(t, err)
			response, err := http.DefaultClient.Do(request)
			check(t, err)
			if response.Body.Close(); response.StatusCode != http.StatusOK {
				t.Errorf("deleting index %s: %s", index, response.Status)
			}
		}
	})
	scheme := "opensearch"
	if server.Scheme == "https" {
		scheme += "+https"
	}
	prefix := testName()
	return func(script string) string {
		index := prefix + "-" + strings.ToLower(script)
		mu.Lock()
		used = append(used, index)
		mu.Unlock()
		return (&url.URL{
			Scheme: scheme, User: server.User, Host: server.Host, Path: server.Path,
			RawQuery: url.Values{"index": {index}}.Encode(),
		}).String()
	}
}

// prefixes gives each script keys that go with the test.
func prefixes(t *testing.T, server *url.URL) func(script string) string {
	options, err := redis.ParseURL(server.String())
	check(t, err)
	client := redis.NewClient(options)
	prefix := testName()
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		keys := client.Scan(ctx, 0, prefix+"*", 1000).Iterator()
		for keys.Next(ctx) {
			if err := client.Unlink(ctx, keys.Val()).Err(); err != nil {
				t.Error(err)
			}
		}
		if err := errors.Join(keys.Err(), client.Close()); err != nil {
			t.Error(err)
		}
	})
	return func(script string) string {
		store := *server
		query := store.Query()
		query.Set("prefix", prefix+"-"+script+":")
		store.RawQuery = query.Encode()
		return store.String()
	}
}

// schemas gives each script a schema of a database that goes with the test.
func schemas(t *testing.T, server *url.URL) func(script string) string {
	database := testName()
	do := func(statement string) {
		t.Helper()
		ctx := context.WithoutCancel(t.Context())
		conn, err := pgx.Connect(ctx, server.String())
		check(t, err)
		_, err = conn.Exec(ctx, statement+" "+pgx.Identifier{database}.Sanitize())
		if err := errors.Join(err, conn.Close(ctx)); err != nil {
			t.Error(err)
		}
	}
	do("CREATE DATABASE")
	t.Cleanup(func() { do("DROP DATABASE") })
	return func(script string) string {
		store := *server
		store.Path = "/" + database
		query := store.Query()
		query.Set("schema", strings.ReplaceAll(script, "-", "_")) // what is not written in quotes
		store.RawQuery = query.Encode()
		return store.String()
	}
}
