package engines_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/tests/engines"
	"github.com/holdfast-go/holdfast/tests/internal/thorough"
)

// What is committed survives each fail-over, and one URL reaches the primary.
func TestPostgresPair(t *testing.T) {
	thorough.Test(t, "starts two servers and lets one take over")
	pair := engines.NewPostgresPair(t)
	do := func(sql string) {
		t.Helper()
		conn, err := pgx.Connect(t.Context(), pair.URL)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(t.Context())
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	do("CREATE TABLE numbers AS SELECT 1 AS n")
	first := pair.Primary.URL
	for range 2 {
		do("UPDATE numbers SET n = n + 1")
		pair.FailOver(t)
		do("UPDATE numbers SET n = n + 1")
		pair.Rejoin(t)
	}
	if pair.Primary.URL != first {
		t.Errorf("the primary is %s, and was %s before two fail-overs", pair.Primary.URL, first)
	}
	count := func(url string) (n int) {
		conn, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(t.Context())
		if err := conn.QueryRow(t.Context(), "SELECT n FROM numbers").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := count(pair.URL); n != 5 {
		t.Errorf("the number is %d", n)
	}

	// Cut off, the standby gets nothing, and nothing is committed.
	pair.Cut(t)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	conn, err := pgx.Connect(t.Context(), pair.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(ctx, "UPDATE numbers SET n = 100"); err == nil {
		t.Error("a commit did not wait for the standby")
	}
	if n := count(pair.Standby.URL); n != 5 {
		t.Errorf("the number is %d on the standby", n)
	}
	pair.Restore(t)
	do("UPDATE numbers SET n = n + 1")
	pair.FailOver(t)
	if n := count(pair.URL); n != 101 {
		t.Errorf("the number is %d on the former standby", n)
	}
}
