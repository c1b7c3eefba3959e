package pglock

import (
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
)

func TestSchema(t *testing.T) {
	text, err := Schema("my_locks")
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`CREATE SCHEMA "my_locks"`, `"my_locks".locks`, `pg_notify('holdfast_my_locks'`, "layout 5"} {
		if !strings.Contains(text, part) {
			t.Errorf("it lacks %s", part)
		}
	}
	if strings.Contains(text, "{schema") || strings.Contains(text, "{channel}") || strings.Contains(text, "{layout}") {
		t.Error("a mark was not replaced")
	}
	long := strings.Repeat("x", 48)
	if _, err := Schema(long); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"", "A", "1a", "a-b", "a b", "a\"b", "a$fn$", "a\n", "é", "pg_x", long + "x"} {
		if _, err := Schema(name); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%q: error %v", name, err)
		}
	}
	// With such a name in its options, a store sends nothing.
	u, err := driver.ParseURL("postgres://127.0.0.1:1/app")
	if err != nil {
		t.Fatal(err)
	}
	s, err := open(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := newStore(s.pool, true, &Options{Schema: "No"}).Init(t.Context()); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("error %v", err)
	}
}
