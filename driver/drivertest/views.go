package drivertest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

var views = []subtest{
	{"status", status},
	{"ages_of_holds", agesOfHolds},
	{"ages_of_places", agesOfPlaces},
	{"filters", filters},
	{"list_shows_expired_only_if_asked", listExpired},
	{"list_broken_off", listBrokenOff},
	{"list_and_change", listAndChange},
	{"list_holds_up_nobody", listHoldsUpNobody},
	{"traits", traits},
}

// Status shows a hold as it was requested.
func status(b *bench) {
	q := b.request("r", "a").ttl(b.long).delay(b.short)
	q.Details = driver.Details{Owner: "ann", Host: "h1", Comment: "nightly report"}
	h := b.acquire(q)
	b.renew(h.HoldRef, 2*b.long)
	want := driver.Status{
		Resource: "r", LockID: "a", HoldID: q.HoldID, Token: h.Token, Details: q.Details,
		TakeoverDelay: b.short, Left: 2 * b.long,
	}
	all := b.list(driver.Filter{})
	if len(all) != 1 {
		b.t.Fatalf("list shows %d holds, want 1", len(all))
	}
	got := all[0]
	b.left("listed", got.Left, want.Left)
	if got.Created.IsZero() || got.Renewed.Before(got.Created) {
		b.t.Errorf("created %v, renewed %v", got.Created, got.Renewed)
	}
	if b.Now != nil && (!got.Created.Equal(b.Now()) || !got.Renewed.Equal(b.Now())) {
		b.t.Errorf("created %v, renewed %v; want %v", got.Created, got.Renewed, b.Now())
	}
	got.Created, got.Renewed, got.Seen, got.Left = want.Created, want.Renewed, want.Seen, want.Left
	if got != want {
		b.t.Errorf("list shows\n%+v, want\n%+v", got, want)
	}
}

// Each field of a filter works alone and together with others.
func filters(b *bench) {
	add := func(resource, lockID, owner string, ttl time.Duration) {
		q := b.request(resource, lockID).ttl(ttl)
		q.Details.Owner = owner
		b.acquire(q)
	}
	add("r1", "a", "ann", b.long)
	early := b.list(driver.Filter{})[0].Created
	b.pass(b.short)
	add("r2", "a", "bob", 3*b.long)
	add("r3", "b", "ann", driver.Forever)
	late := b.list(driver.Filter{Resource: "r2"})[0].Created
	for name, c := range map[string]struct {
		f    driver.Filter
		want []string
	}{
		"all":              {driver.Filter{}, []string{"r1", "r2", "r3"}},
		"resource":         {driver.Filter{Resource: "r2"}, []string{"r2"}},
		"another resource": {driver.Filter{Resource: "r"}, nil},
		"lock ID":          {driver.Filter{LockID: "a"}, []string{"r1", "r2"}},
		"owner":            {driver.Filter{Owner: "ann"}, []string{"r1", "r3"}},
		"owner, lock ID":   {driver.Filter{Owner: "ann", LockID: "a"}, []string{"r1"}},
		"created before":   {driver.Filter{CreatedBefore: late}, []string{"r1"}},
		"created after":    {driver.Filter{CreatedAfter: early}, []string{"r2", "r3"}},
		"not that moment":  {driver.Filter{CreatedBefore: early}, nil},
		"left below":       {driver.Filter{LeftBelow: 2 * b.long}, []string{"r1"}},
		"left at least":    {driver.Filter{LeftAtLeast: 2 * b.long}, []string{"r2", "r3"}},
		"left between":     {driver.Filter{LeftAtLeast: 2 * b.long, LeftBelow: 4 * b.long}, []string{"r2"}},
	} {
		var got []string
		for _, s := range b.list(c.f) {
			got = append(got, s.Resource)
		}
		if !slices.Equal(got, c.want) {
			b.t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// An expired hold is shown only with Filter.Expired, and then with no time left.
func listExpired(b *bench) {
	b.acquire(b.request("expired", "a").ttl(b.short))
	given := b.acquire(b.request("given up", "a").delay(b.long))
	b.release(given.HoldRef, b.short)
	b.acquire(b.request("live", "a"))
	b.pass(b.short)
	for _, s := range b.list(driver.Filter{}) {
		if s.Resource != "live" || !s.Live() {
			b.t.Errorf("List shows %+v, which no longer blocks", s)
		}
	}
	for _, s := range b.list(driver.Filter{Expired: true}) {
		if s.Live() != (s.Resource == "live") {
			b.t.Errorf("%q has %v left", s.Resource, s.Left)
		}
	}
}

// A list that is not read to its end leaves nothing behind that blocks others.
func listBrokenOff(b *bench) {
	for i := range 50 {
		b.acquire(b.request(fmt.Sprint("r", i), "a"))
	}
	for range 20 {
		for _, err := range b.Store.List(b.t.Context(), driver.Filter{}) {
			if err != nil {
				b.t.Fatal(err)
			}
			break
		}
	}
	b.acquire(b.request("after", "a"))
	if n := len(b.list(driver.Filter{})); n != 51 {
		b.t.Errorf("list shows %d holds, want 51", n)
	}
}

// A slow loop over a list delays no other call, neither of this handle nor of others.
func listHoldsUpNobody(b *bench) {
	h := b.acquire(b.request("r", "a"))
	b.acquire(b.request("s", "a"))
	s, other := b.Store, b.other()
	all := []attempt{
		acquiring("acquire", s, b.request("free", "a")),
		acquiring("acquire by another handle", other, b.request("free too", "a")),
		renewing("renewal", s, 2*b.long, h),
		releasing("release by another handle", other, b.acquire(b.request("given up", "a"))),
		listing("list", s, driver.Filter{}),
		listing("list by another handle", other, driver.Filter{}),
		{"sweep", func(ctx context.Context) []error {
			_, err := s.Sweep(ctx, driver.SweepRequest{Idle: b.long})
			return []error{err}
		}},
	}
	for _, err := range b.Store.List(b.t.Context(), driver.Filter{}) {
		if err != nil {
			b.t.Fatal(err)
		}
		b.try(within, all, func(what string, err error) {
			if err != nil {
				b.t.Errorf("%s, while another list is read: %v", what, err)
			}
		})
		all = nil
	}
}

// The body of a list's loop can change the listed holds, and holds that exist throughout are
// yielded.
func listAndChange(b *bench) {
	want := map[string]bool{}
	for i := range 50 {
		h := b.acquire(b.request(fmt.Sprint("r", i), "a"))
		if i%2 == 0 {
			want[h.Resource] = true
		}
	}
	for s, err := range b.Store.List(b.t.Context(), driver.Filter{}) {
		if err != nil {
			b.t.Fatal(err)
		}
		if want[s.Resource] {
			delete(want, s.Resource)
			continue
		}
		b.release(s.Ref(), 0)
	}
	if len(want) != 0 {
		b.t.Errorf("%d holds were there throughout and not yielded: %v", len(want), want)
	}
	if n := len(b.list(driver.Filter{})); n != 25 {
		b.t.Errorf("list shows %d holds, want 25", n)
	}
}

// Traits are constant, complete, and true as far as they can be tested.
func traits(b *bench) {
	got := b.Store.Traits()
	if again := b.other().Traits(); again != got {
		b.t.Errorf("traits are %+v, then %+v", got, again)
	}
	if got.Name == "" {
		b.t.Error("Traits.Name is empty")
	}
	if !slices.Contains([]driver.Reach{driver.Process, driver.Host, driver.Network}, got.Reach) {
		b.t.Errorf("invalid Traits.Reach: %q", got.Reach)
	}
	if !slices.Contains([]driver.Fencing{driver.FencingStrict, driver.FencingClock, driver.FencingNone}, got.Fencing) {
		b.t.Errorf("invalid Traits.Fencing: %q", got.Fencing)
	}
	if _, watches := b.watch("r"); watches != got.Notifies {
		b.t.Errorf("Watch works: %v; Traits.Notifies: %v", watches, got.Notifies)
	}
}
