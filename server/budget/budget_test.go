package budget_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/server/budget"
)

// small is a budget of few of each.
func small() *budget.Budget {
	return budget.New(&budget.Options{
		Rates: map[budget.Flow]budget.Rate{
			budget.Requests: {PerSecond: 10, Most: 3}, budget.Reads: {PerSecond: 10, Most: 100}, budget.Renewals: {PerSecond: 10, Most: 2},
			budget.Denials: {PerSecond: 1, Most: 10},
		},
		Shares: map[budget.Stock]budget.Share{budget.Lists: {Caller: 2, All: 3}, budget.Bodies: {Caller: 10, All: 15}},
	})
}

func TestFlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := small()
		a := b.Of("a", false)
		for i := range 3 {
			if _, ok := a.Spend(budget.Requests, 1); !ok {
				t.Errorf("request %d is refused", i)
			}
		}
		if wait, ok := a.Spend(budget.Requests, 1); ok || wait != 100*time.Millisecond {
			t.Errorf("the fourth: %v after %v", ok, wait)
		}
		for _, other := range []budget.Account{b.Of("b", false), b.Of("a", true)} {
			if _, ok := other.Spend(budget.Requests, 1); !ok {
				t.Error("another account is refused")
			}
		}
		if _, ok := a.Spend(budget.Reads, 1); !ok {
			t.Error("another flow is refused")
		}
		time.Sleep(100 * time.Millisecond)
		if _, ok := a.Spend(budget.Requests, 1); !ok {
			t.Error("it does not come back")
		}
		time.Sleep(time.Hour)
		if _, ok := a.Spend(budget.Requests, 4); !ok {
			t.Error("more than there ever is, is never there")
		}
		if wait, ok := a.Spend(budget.Requests, 1); ok || wait != 200*time.Millisecond {
			t.Errorf("in debt: %v after %v", ok, wait)
		}
	})
}

func TestCorrect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := small().Of("a", false)
		a.Spend(budget.Reads, 50)
		a.Correct(budget.Reads, -1000)
		if _, ok := a.Spend(budget.Reads, 100); !ok {
			t.Error("what was not needed is not given back")
		}
		a.Correct(budget.Reads, 90)
		if wait, ok := a.Spend(budget.Reads, 10); ok || wait != 10*time.Second {
			t.Errorf("in debt: %v after %v", ok, wait)
		}
	})
}

// Renewals for nothing use up what the caller has for other requests, and then its reserve.
func TestWaste(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := small().Of("a", false)
		a.Waste(3)
		if _, ok := a.Renew(); !ok {
			t.Error("the reserve is gone too early")
		}
		a.Waste(1)
		if _, ok := a.Renew(); ok {
			t.Error("there is a reserve")
		}
		if wait, ok := a.MayRenew(); ok || wait != 200*time.Millisecond {
			t.Errorf("%v after %v", ok, wait)
		}
		time.Sleep(200 * time.Millisecond)
		if _, ok := a.MayRenew(); !ok {
			t.Error("ordinary requests may not renew")
		}
		if _, ok := a.Renew(); !ok {
			t.Error("ordinary requests do not renew")
		}
		if _, ok := a.Renew(); ok {
			t.Error("there is more than ordinary requests")
		}
		held, _ := a.Open(budget.Holds, 1)
		if _, ok := a.MayRenew(); !ok {
			t.Error("a hold that is remembered may not be renewed")
		}
		held.Close()
		time.Sleep(time.Minute)
		for range 2 + 3 { // the reserve, and then requests
			if _, ok := a.Renew(); !ok {
				t.Error("there is no reserve after a minute")
			}
		}
		if _, ok := a.Renew(); ok {
			t.Error("the reserve has no end")
		}
	})
}

func TestDeny(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := small().Of("a", false)
		for i, want := range []struct {
			omitted int
			ok      bool
		}{{0, true}, {0, false}, {0, false}, {14, true}, {0, false}} {
			if i == 3 {
				time.Sleep(10 * time.Second)
			}
			if omitted, ok := a.Deny(10, 7); omitted != want.omitted || ok != want.ok {
				t.Errorf("%d: %d, %v", i, omitted, ok)
			}
		}
	})
}

func TestStock(t *testing.T) {
	b := small()
	a, other, third := b.Of("a", false), b.Of("b", false), b.Of("c", false)
	first, _ := a.Open(budget.Lists, 1)
	second, _ := a.Open(budget.Lists, 1)
	if none, ok := a.Open(budget.Lists, 1); ok {
		t.Error("the caller has more than its share")
	} else {
		none.Close()
	}
	if _, ok := other.Open(budget.Lists, 1); !ok {
		t.Error("another caller has no share")
	}
	if _, ok := third.Open(budget.Lists, 1); ok {
		t.Error("there is more than all may have")
	}
	if _, ok := b.Of("c", true).Open(budget.Lists, 1); !ok {
		t.Error("others have used up the share of operators")
	}
	first.Close()
	first.Close()
	if _, ok := third.Open(budget.Lists, 1); !ok {
		t.Error("what was closed does not come back")
	}
	second.Close()
	body, _ := a.Open(budget.Bodies, 4)
	if !body.Grow(6) || body.Grow(1) {
		t.Error("a body does not grow up to its share")
	}
	body.Close()
	if body, ok := a.Open(budget.Bodies, 10); !ok || body.Grow(1) {
		t.Error("what has grown is not given back")
	}
}

// Nobody gets a new account for one that is spent or has something open. Many share one.
func TestAccountsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := small()
		open, _ := b.Of("open", false).Open(budget.Lists, 1)
		defer open.Close()
		for i := range budget.MaxAccounts - 1 {
			b.Of(fmt.Sprint(i), false).Spend(budget.Requests, 3)
		}
		if _, ok := b.Of("one", false).Spend(budget.Requests, 3); !ok {
			t.Error("the first of all others is refused")
		}
		if _, ok := b.Of("two", false).Spend(budget.Requests, 1); ok {
			t.Error("the others do not share an account")
		}
		if _, ok := b.Of("0", false).Spend(budget.Requests, 1); ok {
			t.Error("one that is known gets more")
		}
		time.Sleep(time.Second)
		if _, ok := b.Of("two", false).Spend(budget.Requests, 3); !ok {
			t.Error("accounts that are full again are kept")
		}
		if _, ok := b.Of("three", false).Spend(budget.Requests, 3); !ok {
			t.Error("the others still share an account")
		}
		again, _ := b.Of("open", false).Open(budget.Lists, 1)
		defer again.Close()
		if _, ok := b.Of("open", false).Open(budget.Lists, 1); ok {
			t.Error("who has something open got another account")
		}
	})
}

// What a caller has for its own is there whatever others have open.
func TestOwn(t *testing.T) {
	b := budget.New(&budget.Options{Shares: map[budget.Stock]budget.Share{budget.Bodies: {Caller: 10, All: 15, Own: 3}}})
	open := func(name string, n int64) bool {
		_, ok := b.Of(name, false).Open(budget.Bodies, n)
		return ok
	}
	if !open("a", 10) || !open("b", 5) || open("c", 4) || !open("c", 3) || open("c", 1) || open("a", 1) {
		t.Error("others are in the way of a caller's own, or it has more")
	}
}
