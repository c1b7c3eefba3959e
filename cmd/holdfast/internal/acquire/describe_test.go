package acquire

import (
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
)

func TestDescribe(t *testing.T) {
	ada := holdfast.Status{LockID: "id"}
	ada.Owner, ada.Host, ada.Comment = "ada", "web1", "nightly"
	nobody := holdfast.Status{LockID: "id"}
	gone := ada
	gone.Released, gone.Left = true, 29*time.Second
	dead := ada
	dead.TakeoverDelay = time.Minute
	since := ada // by a clock of which this machine's is none
	since.Created = time.Date(2026, 11, 21, 14, 0, 0, 0, time.Local)
	since.Seen = since.Created.Add(time.Minute)
	old := since
	old.Seen = time.Time{}
	for want, holders := range map[string][]holdfast.Status{
		`"r" is held`:                                     nil,
		`"r" is held by ada on web1 (nightly)`:            {ada},
		`"r" is held by ada on web1 and 2 more (nightly)`: {ada, nobody, nobody},
		`"r" is held by lock ID id`:                       {nobody},
		`"r" was held by ada on web1 (nightly; released, ends after --at-least, in 29s)`:                        {gone},
		`"r" was held by ada on web1 (nightly; ended without a release; its takeover delay ends in 40s)`:        {dead},
		`"r" was held by ada on web1 and 1 more (nightly; ended without a release; its takeover delay is 1m0s)`: {dead, dead},
		`"r" is held by ada on web1 and 1 more (nightly)`:                                                       {dead, ada},
		`"r" is held by ada on web1 and 1 more since 14:00:00, for 1m0s (nightly)`:                              {since, nobody},
		`"r" is held by ada on web1 since 2026-11-21 14:00 by another clock (nightly)`:                          {old},
	} {
		if got := describe(&holdfast.HeldError{Resource: "r", Holders: holders, Position: driver.NoPlace, RetryAfter: 40 * time.Second}); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestDescribeQueue(t *testing.T) {
	ada := []holdfast.Status{{LockID: "id"}}
	ada[0].Owner = "ada"
	bob := []holdfast.Place{{Owner: "bob", Host: "web2"}, {Owner: "cy"}}
	four := slices.Repeat(bob, 2)
	const held = time.Minute
	for want, e := range map[string]holdfast.HeldError{
		`"r" is held by ada, and 3 wait for it`:                                         {Holders: ada, RetryAfter: held, Position: driver.NoPlace, Waiters: 3, Ahead: bob},
		`"r" is held by ada, and 2 wait for it`:                                         {Holders: ada, RetryAfter: held, Position: 1, Waiters: 3},
		`"r" is held by ada, and 1 waits for it`:                                        {Holders: ada, RetryAfter: held, Position: 0, Waiters: 2},
		`"r" is held by ada`:                                                            {Holders: ada, RetryAfter: held, Position: 0, Waiters: 1},
		`"r" is free, but 2 wait in line before, first bob on web2`:                     {Position: driver.NoPlace, Waiters: 3, Ahead: bob},
		`"r" is free, but 1 waits in line before: bob on web2`:                          {Position: 1, Waiters: 3, Ahead: bob[:1]},
		`"r" is free, but 7 wait in line before, first bob on web2`:                     {Position: 7, Waiters: 9, Ahead: four},
		`"r" is free, but 4 or more wait in line before, first bob on web2`:             {Position: driver.NoPlace, Waiters: 9, Ahead: four},
		`"r" is free, but 4 wait in line before, first bob on web2`:                     {Position: driver.NoPlace, Waiters: 4, Ahead: four},
		`"r" is shared by ada, and 1 waits in line before: bob on web2`:                 {Holders: ada, Position: driver.NoPlace, Waiters: 1, Ahead: bob[:1]},
		`"r" is shared by ada and 1 more, and 2 wait in line before, first bob on web2`: {Holders: append(ada, ada...), Position: 2, Waiters: 5, Ahead: bob},
	} {
		e.Resource = "r"
		if got := describe(&e); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
