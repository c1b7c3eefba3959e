package pglock_test

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/lab/ask"
	"github.com/holdfast-go/holdfast/pglock"
)

// allowed makes a role that may do what is documented, on the place, and returns
// the database as that role has it.
func (p *place) allowed(t *testing.T) (role string, as *database) {
	t.Helper()
	role, as = p.role(t)
	p.exec(t, "GRANT USAGE ON schema SCHEMA TO "+role)
	p.exec(t, "GRANT SELECT, INSERT, UPDATE, DELETE ON SCHEMA.locks TO "+role)
	return role, as
}

// Whatever row-level security hides from a role, nobody is granted what another
// has: it is refused, by Init and by each operation, for it may be turned on at any
// time.
func TestRowSecurity(t *testing.T) {
	d := newDatabase(t)
	for name, policies := range map[string]string{
		"none":              "",
		"select":            "CREATE POLICY a ON SCHEMA.locks FOR SELECT USING (true)",
		"select and insert": "CREATE POLICY a ON SCHEMA.locks FOR SELECT USING (true); CREATE POLICY b ON SCHEMA.locks FOR INSERT WITH CHECK (true)",
		"update of none": "CREATE POLICY a ON SCHEMA.locks FOR SELECT USING (true); CREATE POLICY b ON SCHEMA.locks FOR INSERT WITH CHECK (true);" +
			"CREATE POLICY c ON SCHEMA.locks FOR UPDATE USING (false)",
		"all": "CREATE POLICY a ON SCHEMA.locks USING (true)",
	} {
		t.Run(name, func(t *testing.T) {
			p := newStore(t, d)
			role, as := p.allowed(t)
			s := openPlace(t, as, p.name, as.pool(t))
			mine := ask.Granted(t, s, ask.Request("mine", "a"))
			for policy := range strings.SplitSeq(policies, ";") {
				if policy != "" {
					p.exec(t, policy)
				}
			}
			p.exec(t, "ALTER TABLE SCHEMA.locks ENABLE ROW LEVEL SECURITY")
			mustBeUnusable(t, s.Init(t.Context()), "DISABLE ROW LEVEL SECURITY")
			for _, resource := range []string{"new", "mine"} {
				for _, lockID := range []string{"a", "b"} {
					_, err := s.Acquire(t.Context(), ask.Request(resource, lockID))
					mustBeUnusable(t, err, "row-level security")
				}
			}
			for _, wait := range []string{"mine", "mine and another"} { // one is waited for, two are not
				renewals, releases := []driver.RenewRequest{{HoldRef: mine, TTL: time.Hour}}, []driver.ReleaseRequest{{HoldRef: mine}}
				if wait != "mine" {
					other := mine
					other.Resource = "another"
					renewals, releases = append(renewals, driver.RenewRequest{HoldRef: other, TTL: time.Hour}), append(releases, driver.ReleaseRequest{HoldRef: other})
				}
				renewed, err := s.Renew(t.Context(), renewals)
				if err != nil {
					t.Fatal(err)
				}
				released, err := s.Release(t.Context(), releases)
				if err != nil {
					t.Fatal(err)
				}
				for i := range renewed {
					mustBeUnusable(t, renewed[i].Err)
					mustBeUnusable(t, released[i].Err)
				}
			}
			for _, err := range s.List(t.Context(), driver.Filter{}) {
				mustBeUnusable(t, err)
			}
			_, err := s.Sweep(t.Context(), driver.SweepRequest{})
			mustBeUnusable(t, err)
			_, err = s.Watch(t.Context(), "mine")
			mustBeUnusable(t, err)

			// It does not apply to the owner, nor to who is told to pass it by.
			if held := ask.Refused(t, p, ask.Request("mine", "b")); len(held.Holders) != 1 {
				t.Errorf("refusal %+v", held)
			}
			if err := p.Init(t.Context()); err != nil {
				t.Error(err)
			}
			p.exec(t, "ALTER ROLE "+role+" BYPASSRLS")
			if err := s.Init(t.Context()); err != nil {
				t.Error(err)
			}
			_ = ask.Refused(t, s, ask.Request("mine", "b"))
			release(t, s, true, mine)
		})
	}
}

// Triggers that keep rows as they are: what is not stored is not granted, renewed
// or released.
func TestRowsStayAsTheyAre(t *testing.T) {
	d := newDatabase(t)
	for name, body := range map[string]string{
		"skipped":       "RETURN NULL;", // no row is updated
		"as it was":     "RETURN OLD;",  // one row is
		"without holds": "NEW.holds := OLD.holds; NEW.due := OLD.due; NEW.watched := OLD.watched; RETURN NEW;",
	} {
		t.Run(name, func(t *testing.T) { rowsStayAsTheyAre(t, newStore(t, d), body) })
	}
}

func rowsStayAsTheyAre(t *testing.T, p *place, body string) {
	mine := ask.Granted(t, p, ask.Request("mine", "a"))
	p.exec(t, "CREATE FUNCTION SCHEMA.stays() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN "+body+" END'")
	p.exec(t, "CREATE TRIGGER stays BEFORE UPDATE ON SCHEMA.locks FOR EACH ROW EXECUTE FUNCTION SCHEMA.stays()")
	for _, resource := range []string{"new", "another"} {
		_, err := p.Acquire(t.Context(), ask.Request(resource, "a"))
		mustBeUnusable(t, err, resource, "does not have what was written")
	}
	_, err := p.AcquireTx(t.Context(), begin(t, p.near, pgx.TxOptions{}), ask.Request("new", "a"))
	mustBeUnusable(t, err, "does not have what was written")
	renewed, err := p.Renew(t.Context(), []driver.RenewRequest{{HoldRef: mine, TTL: time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	mustBeUnusable(t, renewed[0].Err)
	released, err := p.Release(t.Context(), []driver.ReleaseRequest{{HoldRef: mine}})
	if err != nil {
		t.Fatal(err)
	}
	mustBeUnusable(t, released[0].Err)
	_, err = p.Watch(t.Context(), "mine")
	mustBeUnusable(t, err)
	p.exec(t, "ALTER TABLE SCHEMA.locks DISABLE TRIGGER stays")
	p.exec(t, "UPDATE SCHEMA.locks SET holds = jsonb_set(holds, '{0,end}', '1'), due = 1")
	p.exec(t, "ALTER TABLE SCHEMA.locks ENABLE TRIGGER stays")
	_, err = p.Sweep(t.Context(), driver.SweepRequest{})
	mustBeUnusable(t, err)
	p.exec(t, "DROP TRIGGER stays ON SCHEMA.locks")
	ask.Granted(t, p, ask.Request("mine", "b"))
}

// A database whose functions are not everybody's by default: the advice helps.
func TestExecuteRevoked(t *testing.T) {
	d := newDatabase(t)
	run(t, d.near, "ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC")
	p := newStore(t, d)
	role, as := p.allowed(t)
	s := pglock.New(as.pool(t), &pglock.Options{Schema: p.name})
	defer closeStore(t, s)
	advice := "GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA"
	mustBeUnusable(t, s.Init(t.Context()), advice)
	_, err := s.Acquire(t.Context(), ask.Request("r", "a"))
	mustBeUnusable(t, err, advice)
	p.exec(t, strings.Replace(advice, "SCHEMA", "schema", 1)+" SCHEMA TO "+role)
	if err := s.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	release(t, s, true, ask.Granted(t, s, ask.Request("r", "a")))
}
