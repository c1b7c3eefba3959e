package pglock

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-go/holdfast/driver"
)

// What does not pass by itself says what is to be done; all else is unknown.
func TestWrap(t *testing.T) {
	s := &Store{schema: "locks"}
	for code, c := range map[string]struct {
		unusable bool
		says     string
	}{
		readOnly:             {false, "target_session_attrs=read-write"},
		notStored:            {true, "row-level security"},
		badAuthorization:     {true, "refuses the user"},
		badPassword:          {true, "refuses the user"},
		noDatabase:           {true, "no such database"},
		noSchema:             {true, "pglock.Schema"},
		noFunction:           {true, "pglock.Schema"},
		noTable:              {true, "pglock.Schema"},
		noPrivilege:          {true, `GRANT USAGE ON SCHEMA "locks"`},
		diskFull:             {true, "disk is full"},
		lockTimeout:          {false, "locked by another transaction"},
		queryCanceled:        {false, "statement_timeout"},
		serializationFailure: {false, "locks"},
		"57P01":              {false, "locks"}, // shut down: before the commit, or after
		"53300":              {false, "locks"}, // too many connections
		"XX000":              {false, "locks"},
	} {
		err := s.wrap(fmt.Errorf("in a connection: %w", &pgconn.PgError{Code: code, Message: "cause " + code}))
		if errors.Is(err, driver.ErrUnusable) != c.unusable || !strings.Contains(err.Error(), c.says) ||
			!strings.Contains(err.Error(), "cause "+code) {
			t.Errorf("%s: %v; want unusable: %v, %q and the cause", code, err, c.unusable, c.says)
		}
		for _, definite := range []error{driver.ErrHeld, driver.ErrLost, driver.ErrDamaged, driver.ErrInvalid} {
			if errors.Is(err, definite) {
				t.Errorf("%s: %v", code, err)
			}
		}
	}
}

// Only what certainly was not done is sent again.
func TestTries(t *testing.T) {
	for code, again := range map[string]bool{
		serializationFailure: true, deadlockDetected: true, readOnly: true, lockTimeout: false, "57P01": false, "08006": false, queryCanceled: false,
	} {
		if (tries(&pgconn.PgError{Code: code}) > 1) != again {
			t.Errorf("%s: not %v", code, again)
		}
	}
	if tries(errors.New("unexpected EOF")) > 1 {
		t.Error("a lost connection would be repeated")
	}
}
