package pglock_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/lab/ask"
)

// read is how many rows of the table a sweep reads, of which it changes changed.
func (p *place) read(t *testing.T, idle time.Duration) (rows, changed int) {
	t.Helper()
	tx := begin(t, p.near, pgx.TxOptions{})
	count := func() (rows, changed int) { // since the session told the others
		err := tx.QueryRow(t.Context(), `SELECT seq_tup_read + idx_tup_fetch, n_tup_upd + n_tup_del
			FROM pg_stat_xact_user_tables WHERE schemaname = $1 AND relname = 'locks'`, p.name).Scan(&rows, &changed)
		if err != nil {
			t.Fatal(err)
		}
		return rows, changed
	}
	readBefore, changedBefore := count()
	if _, err := tx.Exec(t.Context(), "SELECT FROM "+p.name+".sweep($1, 1000)", idle.Microseconds()); err != nil {
		t.Fatal(err)
	}
	rows, changed = count()
	commit(t, tx)
	return rows - readBefore, changed - changedBefore
}

// A sweep reads what is due and nothing else, however much is there, and also if
// the server has no statistics of the table.
func TestSweepReadsWhatIsDue(t *testing.T) {
	for _, analyze := range []bool{false, true} {
		t.Run(fmt.Sprint("analyzed ", analyze), func(t *testing.T) {
			p := newStore(t, newDatabase(t))
			p.exec(t, "ALTER TABLE SCHEMA.locks SET (autovacuum_enabled = off)")
			p.exec(t, `INSERT INTO SCHEMA.locks (resource, token, touched, due)
				SELECT 'idle ' || n, now, now, -now FROM generate_series(1, 10000) n, SCHEMA.clock() AS now`)
			live := ask.Granted(t, p, ask.Request("live", "a"))
			over := ask.Request("over", "a")
			over.TTL = time.Millisecond
			ask.Granted(t, p, over)
			ask.Until(t, "it is over", func() bool { return p.held(t, "over").LockID == "" })
			if analyze {
				p.exec(t, "ANALYZE SCHEMA.locks")
			}
			if rows, changed := p.read(t, time.Hour); rows > 50 || changed != 1 {
				t.Errorf("%d rows read, %d changed", rows, changed)
			}
			if rows, changed := p.read(t, time.Hour); rows > 50 || changed != 0 {
				t.Errorf("another sweep: %d rows read, %d changed", rows, changed)
			}
			// Half of them a day ago.
			p.exec(t, "UPDATE SCHEMA.locks SET token = token - 86400000000, touched = touched - 86400000000, due = due + 86400000000"+
				" WHERE resource LIKE 'idle %5'")
			if rows, changed := p.read(t, time.Hour); rows > 10000/3 || changed != 1000 {
				t.Errorf("%d rows read, %d deleted", rows, changed)
			}
			if rows, changed := p.read(t, time.Hour); rows > 50 || changed != 0 {
				t.Errorf("%d rows read, %d changed", rows, changed)
			}
			release(t, p, true, live)
		})
	}
}

// Whatever happens to a resource, its row is looked at when it is due, and not much
// more often than that: one that is locked again and again changes no index.
func TestDue(t *testing.T) {
	d := newDatabase(t)
	h := onSetClock(d, d)(t)
	s := h.Store
	defer closeStore(t, s)
	if err := s.(driver.Initializer).Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	sweep := func(holds, records int) {
		t.Helper()
		r, err := s.Sweep(t.Context(), driver.SweepRequest{Idle: time.Hour})
		if want := (driver.SweepResult{Holds: holds, Records: records}); err != nil || r != want {
			t.Errorf("swept %+v, error %v, want %+v", r, err, want)
		}
	}
	request := func(id string, ttl time.Duration, shared bool) driver.AcquireRequest {
		q := ask.Request("r", id)
		if q.TTL = ttl; shared {
			q = ask.Shared(q, 0)
		}
		return q
	}
	renew := func(ref driver.HoldRef, ttl time.Duration) {
		t.Helper()
		rs, err := s.Renew(t.Context(), []driver.RenewRequest{{HoldRef: ref, TTL: ttl}})
		if err != nil || rs[0].Err != nil {
			t.Fatalf("%v %v", rs, err)
		}
	}
	for _, quick := range []bool{false, true} { // with a second in between, and with hours
		for name, steps := range map[string]func(){
			"expires":          func() { ask.Granted(t, s, request("a", time.Minute, false)) },
			"renewed, expires": func() { renew(ask.Granted(t, s, request("a", time.Second, false)), time.Minute) },
			"given up": func() {
				ask.Released(t, s, ask.Granted(t, s, request("a", 100*time.Hour, false)), time.Minute)
			},
			"given up, had no end": func() {
				ask.Released(t, s, ask.Granted(t, s, request("a", driver.Forever, false)), time.Minute)
			},
			"the shorter one is second": func() {
				ref := ask.Granted(t, s, request("b", 100*time.Hour, true))
				ask.Granted(t, s, request("a", time.Minute, true))
				ask.Released(t, s, ref, 0)
			},
			"the longer one is second": func() {
				ask.Granted(t, s, request("a", time.Minute, true))
				ref := ask.Granted(t, s, request("b", 100*time.Hour, true))
				ask.Released(t, s, ref, 0)
			},
			"after a release": func() {
				ask.Released(t, s, ask.Granted(t, s, request("b", 100*time.Hour, false)), 0)
				ask.Granted(t, s, request("a", time.Minute, false))
			},
			"after a release that was swept": func() {
				ask.Released(t, s, ask.Granted(t, s, request("b", 100*time.Hour, false)), 0)
				sweep(0, 0)
				ask.Granted(t, s, request("a", time.Minute, false))
				sweep(0, 0)
			},
		} {
			t.Run(strings.ReplaceAll(name, ",", ""), func(t *testing.T) {
				steps()
				if quick {
					h.Advance(time.Second)
					sweep(0, 0)
				}
				h.Advance(time.Minute)
				sweep(1, 0)
				sweep(0, 0)
				h.Advance(time.Hour - time.Second)
				sweep(0, 0)
				h.Advance(time.Second)
				sweep(0, 1)
				sweep(0, 0)
				h.Advance(24 * time.Hour)
			})
		}
	}
}
