package pglock

import (
	"testing"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
)

func TestParseURL(t *testing.T) {
	for _, c := range []struct{ url, schema, host, database, password string }{
		{"postgres://h/app", "holdfast", "h", "app", ""},
		{"postgresql://h:5433/app?schema=mine", "mine", "h", "app", ""},
		{"postgres://u:p%40%2F@h/app?schema=a_1&sslmode=disable", "a_1", "h", "app", "p@/"},
		{"postgres://u:p@h1:5432,h2:5433/app?schema=x&target_session_attrs=read-write", "x", "h1", "app", "p"},
		{"postgres:///app?host=/var/run/postgresql&schema=x", "x", "/var/run/postgresql", "app", ""},
		{"postgres://u@h?dbname=app", "holdfast", "h", "app", ""},
		{"postgres://u@h/app?password=p%40", "holdfast", "h", "app", "p@"},
	} {
		t.Run(c.url, func(t *testing.T) {
			u, err := driver.ParseURL(c.url)
			if err != nil {
				t.Fatal(err)
			}
			got, err := parseURL(u)
			if err != nil {
				t.Fatal(err)
			}
			conn := got.settings.connect
			if got.schema != c.schema || conn.Host != c.host || conn.Database != c.database || c.password != "" && conn.Password != c.password {
				t.Errorf("schema %q, host %q, database %q, password %q", got.schema, conn.Host, conn.Database, conn.Password)
			}
			if _, left := conn.RuntimeParams["schema"]; left {
				t.Error("the server would be told to set \"schema\"")
			}
		})
	}
}

func TestOpenRefuses(t *testing.T) {
	drivertest.RefusesURLs(t, map[string]string{
		"postgres:///app":                                   "no server",
		"postgres://u:secret@h":                             "no database",
		"postgres://u:secret@h/":                            "no database",
		"postgres://u:secret@h/app#part":                    "%23",
		"postgres://u:secret@h/app?schema=":                 "one schema",
		"postgres://u:secret@h/app?schema=a&schema=b":       "one schema",
		"postgres://u:secret@h/app?schema=A":                "lower-case",
		"postgres://u:secret@h/app?schema=pg_a":             "pg_",
		"postgres://u:secret@h/app?schema=%22%3B--":         "lower-case",
		"postgres://u:secret@h/app?schema=%zz":              "escaped",
		"postgres://u:secret@h/app?sslmode=secret":          "sslmode",
		"postgres://u:secret@h/app?pool_max_conns=secret":   "postgres URL",
		"postgres://u:secret@h/app?connect_timeout=secret":  "postgres URL",
		"postgres://u:secret@h/app?target_session_attrs=no": "target_session_attrs",
		"postgres://h/app?password=secret&sslmode=secret":   "sslmode",
		"postgres://u:7777/secret@h/app":                    "%2F",
		"postgres://u:7777?secret@h/app":                    "%3F",
		"postgres://u:7777/app?secret@h/app":                "%40",
		"postgres://u:7777#secret@h/app":                    "%23",
	})
}
