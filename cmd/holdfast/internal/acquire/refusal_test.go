package acquire

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
)

func TestRefusalWaiting(t *testing.T) {
	now := time.Date(2026, 11, 21, 15, 0, 0, 0, time.Local)
	store := now.Add(time.Hour) // the store's clock when it refused
	ada := holdfast.Status{LockID: "id", Left: 30 * time.Second, Created: store.Add(-time.Minute), Seen: store}
	ada.Owner, ada.Host, ada.Comment = "ada", "web1", "nightly"
	with := func(change func(*holdfast.HeldError)) refusal {
		e := holdfast.HeldError{Resource: "r", Holders: []holdfast.Status{ada}, RetryAfter: ada.Left}
		change(&e)
		return refusal{&e, now.Add(-1500 * time.Millisecond), false}
	}
	const begin = `waiting for "r", held by ada on web1`
	for want, r := range map[string]refusal{
		`waiting for "r", held`:                 with(func(e *holdfast.HeldError) { e.Holders = nil }),
		begin + ` for 1m1s, 28s left (nightly)`: with(func(e *holdfast.HeldError) { e.Position = driver.NoPlace }),
		`waiting for "r", behind 1, free, but bob on web2 is first in line`: with(func(e *holdfast.HeldError) {
			e.Holders, e.Position, e.Waiters, e.Ahead = nil, driver.NoPlace, 1, []holdfast.Place{{Owner: "bob", Host: "web2"}}
		}),
		`waiting for "r", behind 1, shared by ada on web1 for 1m1s, 28s left (nightly), but bob on web2 is first in line`: with(func(e *holdfast.HeldError) {
			e.RetryAfter, e.Position, e.Waiters, e.Ahead = 0, driver.NoPlace, 1, []holdfast.Place{{Owner: "bob", Host: "web2"}}
		}),
		begin + ` for 1m1s, 28s left, with the same lock ID (nightly)`: with(func(e *holdfast.HeldError) { e.BySelf = true }),
		begin + ` and 2 more for 1m1s, 28s left (nightly)`: with(func(e *holdfast.HeldError) {
			e.Holders = append(e.Holders, ada, ada)
		}),
		begin + ` for 48h0m1s, 28s left`: with(func(e *holdfast.HeldError) {
			e.Holders[0].Created, e.Holders[0].Comment = store.Add(-48*time.Hour), ""
		}),
		begin + ` since 2026-11-21 15:59 by another clock, 28s left (nightly)`: with(func(e *holdfast.HeldError) { // a program without Holdfast
			e.Holders[0].Seen = time.Time{}
		}),
		`waiting for "r", held by lock ID id, ? left`: with(func(e *holdfast.HeldError) {
			e.Holders[0] = holdfast.Status{LockID: "id", Left: driver.Unknown}
		}),
		begin + ` for 1m1s, 28s left, renewed by its holder (nightly)`: with(func(e *holdfast.HeldError) {
			e.Holders[0].Renewed = store
		}),
		begin + ` for 1m1s, 0s left, not renewed for 31s (nightly)`: with(func(e *holdfast.HeldError) {
			e.Holders[0].Renewed, e.Holders[0].Left = store.Add(-29*time.Second-600*time.Millisecond), 400*time.Millisecond
		}),
		begin + ` for 1m1s, without an end (nightly)`: with(func(e *holdfast.HeldError) { // as lock makes it
			e.Holders[0].Left, e.RetryAfter = holdfast.Forever, holdfast.Forever
			e.Holders[0].Renewed = e.Holders[0].Created.Add(time.Second)
		}),
		begin + ` for 1m1s, without an end, renewed by its holder (nightly)`: with(func(e *holdfast.HeldError) {
			e.Holders[0].Left, e.RetryAfter = holdfast.Forever, holdfast.Forever
			e.Holders[0].Renewed = store.Add(-30 * time.Second)
		}),
		begin + ` for 2m1s, 28s left (nightly)`: with(func(e *holdfast.HeldError) { // as some stores note the grant
			e.Holders[0].Created = store.Add(-2 * time.Minute)
			e.Holders[0].Renewed = e.Holders[0].Created
		}),
		begin + ` for 1m1s, 0s left (nightly)`: with(func(e *holdfast.HeldError) {
			e.Holders[0].Left = time.Second
		}),
		`waiting for "r", was held by ada on web1 for 1m1s, released, kept for 28s by --at-least (nightly)`: with(func(e *holdfast.HeldError) {
			e.Holders[0].Released = true
		}),
		`waiting for "r", was held by ada on web1 for 1m1s, ended, to be taken over in 1m18s (nightly)`: with(func(e *holdfast.HeldError) {
			e.Holders[0].Left, e.Holders[0].TakeoverDelay, e.RetryAfter = 0, time.Minute, 80*time.Second
		}),
		begin + ` for 1m1s, 8s left (nightly)`: with(func(e *holdfast.HeldError) {
			e.Holders[0].Left, e.Holders[0].TakeoverDelay, e.RetryAfter = 10*time.Second, time.Minute, 80*time.Second
		}),
	} {
		if got := r.waiting(now); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// A fair acquirer has a position. Others are told how many are ahead, as far as that is
// known, or how many wait as they do.
func TestRefusalPosition(t *testing.T) {
	for _, c := range []struct {
		fair                     bool
		position, waiters, ahead int
		want                     string
	}{
		{true, 0, 1, 0, ", position 1 of 1"},
		{true, 7, 9, 4, ", position 8 of 9"},
		{true, driver.NoPlace, 64, 4, ", beside 64"},
		{false, driver.NoPlace, 63, 4, ", behind 4 or more"},
		{true, driver.NoPlace, 1, 1, ", behind 1"},
		{false, 0, 1, 0, ""},
		{false, 0, 3, 0, ", beside 2"},
		{false, 2, 3, 2, ", behind 2"},
		{false, 6, 9, 4, ", behind 6"},
		{false, driver.NoPlace, 0, 0, ""},
		{false, driver.NoPlace, 2, 0, ", beside 2"},
		{false, driver.NoPlace, 5, 3, ", behind 3"},
	} {
		e := holdfast.HeldError{Position: c.position, Waiters: c.waiters, Ahead: make([]holdfast.Place, c.ahead)}
		if got := (refusal{HeldError: &e, fair: c.fair}).position(); got != c.want {
			t.Errorf("%+v: got %q", c, got)
		}
	}
}

func TestRefusalRefused(t *testing.T) {
	const left = time.Minute
	ada := holdfast.Status{Left: left}
	ada.Owner = "ada"
	over := ada
	over.Left, over.TakeoverDelay = 0, left
	shared := ada
	shared.Mode, shared.Limit = holdfast.Shared, 3
	two := func(a, b holdfast.Status) []holdfast.Status { return []holdfast.Status{a, b} }
	bob := []holdfast.Place{{Owner: "bob", Host: "web2"}, {Owner: "cy"}}
	for want, e := range map[string]holdfast.HeldError{
		`"r" is held`: {Position: driver.NoPlace},
		`"r" is held by ada, 1m0s left, and 3 wait for it`:                                      {Holders: two(ada, ada)[:1], RetryAfter: left, Position: driver.NoPlace, Waiters: 3, Ahead: bob},
		`"r" is held by ada, 1m0s left, and 1 waits for it`:                                     {Holders: two(ada, ada)[:1], RetryAfter: left, Waiters: 2},
		`"r" is held by ada, 1m0s left`:                                                         {Holders: two(ada, ada)[:1], RetryAfter: left, Waiters: 1},
		`"r" is held by ada and 1 more, 1m0s left`:                                              {Holders: two(over, ada), RetryAfter: left, Position: driver.NoPlace},
		`"r" was held by ada and 1 more, ended, with a takeover delay of 1m0s`:                  {Holders: two(over, over), RetryAfter: left, Position: driver.NoPlace},
		`"r" is free, but bob on web2 is first in line, and 2 wait for it`:                      {Position: 1, Waiters: 3, Ahead: bob},
		`"r" is shared by ada, 1m0s left, but bob on web2 is first in line, and 1 waits for it`: {Holders: two(ada, ada)[:1], Position: driver.NoPlace, Waiters: 1, Ahead: bob},
		`"r" is held by ada, 1m0s left with --limit 3 (all programs that share it must give the same limit)`: {
			Holders: two(shared, shared)[:1], RetryAfter: left, Position: driver.NoPlace, LimitDiffers: true,
		},
	} {
		e.Resource = "r"
		now := time.Now()
		if got := (refusal{&e, now, false}).refused(now); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
