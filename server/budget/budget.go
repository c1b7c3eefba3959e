// Package budget gives each caller a share of what a server can do: of the work of its
// requests, and of what may be open at a time. It knows nothing of HTTP, locks or rights.
//
// A flow is refilled with time. It is charged before the work by an estimate, and corrected
// after it: it may be in debt then, and nothing more is done for that caller until time has
// paid for it. So the work counts, and not how long it took, which others may have caused.
// A stock is what is open now.
package budget

import (
	"maps"
	"math"
	"sync"
	"time"
)

// Flow is something that comes back with time.
type Flow uint8

// The flows.
const (
	// Requests are those that lock, release by force or sweep, and what renewals and releases
	// were for nothing.
	Requests Flow = iota
	// Reads are pages, lists and the history, in units of work: one is about a microsecond of
	// a core.
	Reads
	// Renewals is the reserve for requests that renew or release.
	Renewals
	// Denials are bytes of an audit about what was refused.
	Denials
	// Looks are those at one resource that a page asks for at once.
	Looks
	flows
)

// Stock is something that is open for a time.
type Stock uint8

// The stocks.
const (
	Bodies   Stock = iota // bytes of bodies that are being read
	Acquires              // under way, those that wait among them
	Watches
	Streams // of live pages
	Lists
	Holds // that a server remembers
	// Unseen are renewals and releases under way of holds that no server remembers: what was for
	// nothing is charged when the store has answered, and until then others could come at once.
	Unseen
	stocks
)

// Rate is how much of a flow comes back in a second, and how much of it there is at most.
type Rate struct{ PerSecond, Most float64 }

// Share is how much of a stock one caller may have open, and all callers together. Own is what
// each caller may have open whatever the others have. Operators have the same shares once more.
type Share struct{ Caller, All, Own int64 }

// Options change what New makes. What is not in a map has its default.
type Options struct {
	Rates  map[Flow]Rate
	Shares map[Stock]Share
}

const (
	// MaxAccounts is how many callers are told apart. The others share an account.
	MaxAccounts = 4096
	// withoutReserve is for how long a caller has no reserve that has wasted its share.
	withoutReserve = time.Minute
	// sweepPause is the shortest time between two searches for accounts that say nothing.
	sweepPause = time.Second
)

var defaults = Options{
	Rates: map[Flow]Rate{
		Requests: {10_000, 10_000}, Reads: {250_000, 1_000_000}, Renewals: {10_000, 10_000}, Denials: {1 << 10, 64 << 10}, Looks: {1, 1},
	},
	Shares: map[Stock]Share{
		Bodies: {32 << 20, 128 << 20, 128 << 10}, Acquires: {10_000, 20_000, 0}, Watches: {10_000, 20_000, 0}, Streams: {50, 500, 0}, Lists: {4, 16, 0}, Holds: {1 << 16, 1 << 18, 0},
		Unseen: {2_000, 4_000, 0},
	},
}

// Budget has the accounts of all callers. Its methods may be called concurrently.
type Budget struct {
	Options
	most [flows]float64 // of Rates

	mu       sync.Mutex
	accounts map[string]*account
	open     [2][stocks]int64 // of all, and of all operators
	swept    time.Time
}

// account is what a caller has left, and has open.
type account struct {
	left    [flows]float64
	at      time.Time // when it had that
	open    [stocks]int64
	reserve time.Time // when it has its reserve again
	omitted int       // denials that are not in the audit
}

// New returns a Budget.
func New(o *Options) *Budget {
	b := &Budget{Options: Options{maps.Clone(defaults.Rates), maps.Clone(defaults.Shares)}, accounts: map[string]*account{}}
	if o != nil {
		maps.Copy(b.Rates, o.Rates)
		maps.Copy(b.Shares, o.Shares)
	}
	for f, r := range b.Rates {
		b.most[f] = r.Most
	}
	return b
}

// Account is that of a caller. The zero value is none.
type Account struct {
	b    *Budget
	name string
	all  *[stocks]int64 // what all have open with whom the caller shares
}

// Of returns the account with that name. An operator has another one, and what operators have
// open counts apart: nobody else can use it up.
func (b *Budget) Of(name string, operator bool) Account {
	if operator {
		return Account{b, "operator/" + name, &b.open[1]}
	}
	return Account{b, name, &b.open[0]}
}

// lock locks the budget and returns what is known of the caller now.
func (a Account) lock() *account {
	b, now := a.b, time.Now()
	b.mu.Lock()
	at := b.accounts[a.name]
	if at == nil && len(b.accounts) >= MaxAccounts {
		b.sweep(now)
		if len(b.accounts) >= MaxAccounts {
			a.name = "" // that of all others
			at = b.accounts[a.name]
		}
	}
	if at == nil {
		at = &account{left: b.most, at: now}
		b.accounts[a.name] = at
	}
	b.refill(at, now)
	return at
}

func (b *Budget) refill(at *account, now time.Time) {
	for f := range flows {
		at.left[f] = min(b.most[f], at.left[f]+max(0, now.Sub(at.at).Seconds())*b.Rates[f].PerSecond)
	}
	at.at = now
}

// sweep removes the accounts that are as those that are not there: whose flows are full, and
// that have nothing open.
func (b *Budget) sweep(now time.Time) {
	if now.Sub(b.swept) < sweepPause {
		return
	}
	b.swept = now
	maps.DeleteFunc(b.accounts, func(_ string, at *account) bool {
		b.refill(at, now)
		return at.left == b.most && at.open == [stocks]int64{} && at.hasReserve()
	})
}

// wait returns how long it is until there is so much of the flow, at most all of it.
func (b *Budget) wait(at *account, f Flow, n float64) time.Duration {
	r := b.Rates[f]
	return time.Duration(math.Ceil(max(0, min(n, r.Most)-at.left[f]) / r.PerSecond * float64(time.Second)))
}

func (b *Budget) spend(at *account, f Flow, n float64) (wait time.Duration, ok bool) {
	if wait = b.wait(at, f, n); wait > 0 {
		return wait, false
	}
	at.left[f] -= n
	return 0, true
}

// Spend takes so much of a flow. If it is not there, it returns how long until it is. More
// than there ever is leaves a debt.
func (a Account) Spend(f Flow, n float64) (wait time.Duration, ok bool) {
	at := a.lock()
	defer a.b.mu.Unlock()
	return a.b.spend(at, f, n)
}

// Correct takes what the work was more than was spent for it, or gives back what it was less.
func (a Account) Correct(f Flow, n float64) {
	at := a.lock()
	defer a.b.mu.Unlock()
	at.left[f] = min(a.b.most[f], at.left[f]-n)
}

func (at *account) hasReserve() bool { return !at.at.Before(at.reserve) }

// MayRenew reports whether it makes sense to read a request that renews or releases: there is
// something left for it, or it may name a hold that is remembered. If not, it returns how long
// until there is.
func (a Account) MayRenew() (wait time.Duration, ok bool) {
	at := a.lock()
	defer a.b.mu.Unlock()
	wait = a.b.wait(at, a.renewals(at), 1)
	return wait, wait == 0 || at.open[Holds] > 0
}

// Renew takes a request that renews or releases out of the reserve. A caller that has none
// takes it from its other requests.
func (a Account) Renew() (wait time.Duration, ok bool) {
	at := a.lock()
	defer a.b.mu.Unlock()
	return a.b.spend(at, a.renewals(at), 1)
}

func (a Account) renewals(at *account) Flow {
	if at.hasReserve() && a.b.wait(at, Renewals, 1) == 0 {
		return Renewals
	}
	return Requests
}

// Waste charges so many renewals and releases that were for nothing as requests. Who has no
// requests left by that has no reserve for a minute.
func (a Account) Waste(n int) {
	at := a.lock()
	defer a.b.mu.Unlock()
	if at.left[Requests] -= float64(n); n > 0 && at.left[Requests] < 0 {
		at.reserve = at.at.Add(withoutReserve)
	}
}

// Deny spends the bytes of an entry in the audit about so many denials. If they are not there,
// the denials are only counted: the next entry of the caller has how many there were.
func (a Account) Deny(bytes, denials int) (omitted int, ok bool) {
	at := a.lock()
	defer a.b.mu.Unlock()
	if _, ok = a.b.spend(at, Denials, float64(bytes)); !ok {
		at.omitted += denials
		return 0, false
	}
	omitted, at.omitted = at.omitted, 0
	return omitted, true
}

// Claim is what a caller has open of a stock.
type Claim struct {
	Owner Account
	at    *account
	stock Stock
	n     int64
}

// Open opens so much of a stock, unless that is too much. The caller closes it.
func (a Account) Open(s Stock, n int64) (c Claim, ok bool) {
	at := a.lock()
	defer a.b.mu.Unlock()
	c = Claim{a, at, s, 0}
	return c, c.grow(n)
}

// Grow opens more.
func (c *Claim) Grow(n int64) (ok bool) {
	c.Owner.b.mu.Lock()
	defer c.Owner.b.mu.Unlock()
	return c.grow(n)
}

func (c *Claim) grow(n int64) bool {
	share, own := c.Owner.b.Shares[c.stock], c.at.open[c.stock]+n
	if n > 0 && own > share.Own && (own > share.Caller || c.Owner.all[c.stock]+n > share.All) {
		return false
	}
	c.n += n
	c.at.open[c.stock] += n
	c.Owner.all[c.stock] += n
	return true
}

// Close gives back what is open.
func (c *Claim) Close() {
	c.Grow(-c.n)
}
