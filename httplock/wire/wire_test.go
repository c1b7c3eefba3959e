package wire_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock/wire"
)

// through encodes v, decodes it as a T, and returns that.
func through[T any](t *testing.T, v any) T {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var read T
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return read
}

func same(t *testing.T, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

var (
	moment = time.Date(2026, 11, 24, 1, 2, 3, 456_000, time.UTC)
	status = driver.Status{
		Resource: "r", LockID: "l", HoldID: driver.NewHoldID(), Mode: driver.Shared, Limit: 2, Token: driver.MaxToken,
		Details: driver.Details{Owner: "o", Host: "h", Comment: "c"}, Created: moment, Renewed: moment.Add(1), Seen: moment.Add(time.Hour),
		Left: time.Minute, TakeoverDelay: time.Second, Released: true,
	}
	place = driver.Place{
		Resource: "r", LockID: "l", Mode: driver.Shared, Limit: 2, Owner: "o", Host: "h", Fair: true,
		Position: 3, Since: moment, Asked: moment, Seen: moment.Add(time.Minute), Left: time.Second,
	}
)

// Encoding and decoding do not change a request for the store.
func TestRequests(t *testing.T) {
	q := driver.AcquireRequest{
		Resource: "r", LockID: "l", HoldID: driver.NewHoldID(), Mode: driver.Shared, Limit: 2,
		TTL: driver.Forever, TakeoverDelay: time.Second, Details: status.Details,
		Place: driver.NewPlaceID(), Fair: true,
	}
	same(t, through[wire.AcquireRequest](t, wire.AcquireRequestOf(q)).Driver(), q)
	renewal := driver.RenewRequest{HoldRef: status.Ref(), TTL: time.Second}
	same(t, through[wire.Renewal](t, wire.RenewalOf(renewal)).Driver(), renewal)
	r := driver.ReleaseRequest{HoldRef: status.Ref(), Place: driver.NewPlaceID(), After: time.Second}
	same(t, through[wire.Release](t, wire.ReleaseOf(r)).Driver(), r)
	s := driver.SweepRequest{Idle: time.Second, Most: 3}
	same(t, through[wire.SweepRequest](t, wire.SweepRequestOf(s)).Driver(), s)
}

func TestDefaults(t *testing.T) {
	id, err := driver.ParseHoldID("0123456789abcdef01234567")
	if err != nil {
		t.Fatal(err)
	}
	const lockID = "8865fea8edb697169ac2b4f5" // printf 0123456789abcdef01234567 | sha256sum | cut -c1-24
	same(t, wire.AcquireRequest{Resource: "r", HoldID: id}.Driver(),
		driver.AcquireRequest{Resource: "r", HoldID: id, LockID: lockID, TTL: 30 * time.Second})
	same(t, wire.Renewal{Ref: wire.Ref{Resource: "r", HoldID: id}}.Driver(),
		driver.RenewRequest{HoldRef: driver.HoldRef{Resource: "r", HoldID: id, LockID: lockID}, TTL: 30 * time.Second})
	same(t, wire.SweepRequest{Most: 2}.Driver(), driver.SweepRequest{Idle: 24 * time.Hour, Most: 2})
	onlyPlace := wire.Release{Ref: wire.Ref{Resource: "r"}, PlaceID: driver.PlaceID(id)}.Driver()
	if err := onlyPlace.Validate(); err != nil || !onlyPlace.HoldID.IsZero() {
		t.Errorf("release of a place alone: %+v, %v", onlyPlace, err)
	}
}

func TestAnswers(t *testing.T) {
	for _, left := range []time.Duration{0, time.Minute, driver.Forever, driver.Unknown} {
		s := status
		s.Left = left
		same(t, through[wire.Hold](t, wire.HoldOf(s)).Driver(), s)
		g := driver.Grant{Token: 7, Left: left}
		same(t, through[wire.Grant](t, wire.GrantOf(driver.AcquireRequest{}, g)).Driver(), g)
		r := driver.RenewResult{Left: left, Waiters: 2}
		same(t, through[wire.RenewResult](t, wire.RenewResultOf(wire.Renewal{}, r)).Driver(), r)
	}
	same(t, through[wire.Waiter](t, wire.WaiterOf(place)).Driver(), place)
	released := driver.ReleaseResult{Found: true, Remains: true}
	same(t, through[wire.ReleaseResult](t, wire.ReleaseResultOf(wire.Release{}, released)).Driver(), released)
	traits := driver.Traits{
		Name: "n", Reach: driver.Network, ServerClock: true, Notifies: true, Queue: true, Durable: true, Shared: true, Sweeps: true,
		Fencing: driver.FencingStrict, Failover: driver.FailoverKeeps,
	}
	same(t, through[wire.Traits](t, wire.TraitsOf(traits)).Driver(), traits)
}

// All ages are by the store's clock. Without it, they are unknown.
func TestAges(t *testing.T) {
	s, p := status, place
	s.Renewed, p.Asked = moment.Add(time.Second), moment.Add(3*time.Second)
	for _, c := range []struct {
		seen time.Time
		want string
	}{
		{moment.Add(time.Hour), "3600000 3599000 3600000 3597000"},
		{moment.Add(1999 * time.Microsecond), "1 0 1 0"},
		{moment.Add(-time.Hour), "0 0 0 0"}, // the clock was set back
		{time.Time{}, "null null null null"},
	} {
		s.Seen, p.Seen = c.seen, c.seen
		h, w := wire.HoldOf(s), wire.WaiterOf(p)
		var got []string
		for _, age := range []*wire.Millis{h.AgeMs, h.RenewedAgoMs, w.AgeMs, w.AskedAgoMs} {
			text, err := json.Marshal(age)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, string(text))
		}
		if got := strings.Join(got, " "); got != c.want {
			t.Errorf("seen at %v: %s, want %s", c.seen, got, c.want)
		}
	}
	h := wire.HoldOf(status)
	*h.AgeMs = -2
	if s := h.Driver(); !s.Seen.IsZero() {
		t.Errorf("an age below 0 gives %v", s.Seen)
	}
}

// A holder is never told that it has more time than it has, nor a waiter less.
func TestRounding(t *testing.T) {
	g := wire.GrantOf(driver.AcquireRequest{}, driver.Grant{Left: 1999 * time.Microsecond})
	s := wire.HoldOf(driver.Status{Left: time.Microsecond})
	if *g.TTLMs != 1 || *s.TTLMs != 1 {
		t.Errorf("grant %d, hold %d", *g.TTLMs, *s.TTLMs)
	}
}

func TestRefusals(t *testing.T) {
	held := &driver.HeldError{
		Resource: "r", Holders: []driver.Status{status}, Position: 2, Waiters: 4, Ahead: []driver.Place{place},
		RetryAfter: time.Second, BySelf: true, LimitDiffers: true,
	}
	same(t, through[wire.Refusal](t, wire.HeldRefusal(held)).Err(), error(held))
	free := &driver.HeldError{Resource: "r", Position: driver.NoPlace, RetryAfter: driver.Unknown}
	same(t, through[wire.Refusal](t, wire.HeldRefusal(free)).Err(), error(free))

	for kind, status := range wire.Kinds() {
		r := wire.NewRefusal(kind, "why")
		if r.Kind() != kind || r.Status != status {
			t.Errorf("%s: kind %q, status %d", kind, r.Kind(), r.Status)
		}
		r.Status = 599
		if r.Kind() != "" {
			t.Errorf("%s with status 599 has kind %q", kind, r.Kind())
		}
	}
	for _, r := range []wire.Refusal{
		{Type: "about:blank", Status: 409}, {Type: "urn:holdfast:held", Status: 409}, {Type: "urn:holdfast:", Status: 500},
		wire.NewRefusal(wire.KindUnknown, "no answer"), wire.NewRefusal(wire.KindDraining, "ends"), wire.NewRefusal(wire.KindBusy, "busy"),
	} {
		if err := r.Err(); err == nil || definite(err) {
			t.Errorf("%+v became %v, which is definite", r, err)
		}
	}
}

func definite(err error) bool {
	return wire.KindOf(err) != wire.KindUnknown || wire.OutcomeOf(err) != wire.Unknown
}

func TestOutcomes(t *testing.T) {
	for _, err := range []error{driver.ErrLost, driver.ErrInvalid, driver.ErrDamaged, driver.ErrUnusable, driver.ErrUnsupported} {
		r := through[wire.RenewResult](t, wire.RenewResultOf(wire.Renewal{}, driver.RenewResult{Err: err})).Driver()
		s := through[wire.ReleaseResult](t, wire.ReleaseResultOf(wire.Release{}, driver.ReleaseResult{Err: err})).Driver()
		if !errors.Is(r.Err, err) || r.Left != driver.Unknown || !errors.Is(s.Err, err) || s.Found {
			t.Errorf("%v became %+v and %+v", err, r, s)
		}
	}
	for _, o := range []wire.Outcome{wire.Unknown, "", wire.Released, "something new"} {
		if r := (wire.RenewResult{Outcome: o}).Driver(); r.Err == nil || definite(r.Err) {
			t.Errorf("a renewal that is %q became %+v", o, r)
		}
	}
	if r := (wire.ReleaseResult{Outcome: wire.Renewed}).Driver(); r.Err == nil || definite(r.Err) {
		t.Errorf("a release that is renewed became %+v", r)
	}
	if r := (wire.RenewResult{Outcome: wire.Denied, Detail: "no"}).Driver(); !errors.Is(r.Err, driver.ErrUnusable) {
		t.Errorf("denied became %v", r.Err)
	}
}

func TestMillis(t *testing.T) {
	for _, m := range []wire.Millis{-2, -1 << 63, 1 << 62, 4_000_000_000_000} {
		q := driver.RenewRequest{HoldRef: status.Ref(), TTL: m.Duration()}
		if err := q.Validate(); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%d ms became %v: %v", m, m.Duration(), err)
		}
	}
}
