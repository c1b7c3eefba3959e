package mongolock

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/holdfast-go/holdfast/driver"
)

// referee knows who holds a resource, by their own word alone: a player enters when
// it was granted the resource and leaves before it gives it up, or before its time
// ends. Whom the referee sees together there have been together. It asks no
// store, and shares no code with one.
type referee struct {
	mu     sync.Mutex
	limit  int // of shared locks in this round; 0: none
	inside map[string]driver.Mode
	grants int
	tokens map[uint64]bool // of those who were told theirs
	last   uint64          // the largest of them
	fence  int64           // the last one seen
	faults []string
}

func newReferee(limit int) *referee {
	return &referee{limit: limit, inside: make(map[string]driver.Mode), tokens: make(map[uint64]bool)}
}

// fault notes what must not be.
func (r *referee) fault(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.note(format, args...)
}

func (r *referee) note(format string, args ...any) {
	r.faults = append(r.faults, fmt.Sprintf(format, args...))
}

// enter lets somebody in, with a token or 0.
func (r *referee) enter(who string, mode driver.Mode, token uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.grants++
	// Of those who share it, the first one granted may come second.
	if token > 0 && (r.tokens[token] || mode == driver.Exclusive && token < r.last) {
		r.note("token %d of %s, after %d", token, who, r.last)
	}
	if token > 0 {
		r.tokens[token], r.last = true, max(r.last, token)
	}
	shared := 0
	for other, its := range r.inside {
		if mode == driver.Exclusive || its == driver.Exclusive {
			r.note("overlap: %s is granted it (%v) while %s holds it (%v)", who, mode, other, its)
		}
		shared++
	}
	if r.limit > 0 && mode == driver.Shared && shared >= r.limit {
		r.note("overlap: %s is granted it while %d share it already, of at most %d", who, shared, r.limit)
	}
	r.inside[who] = mode
}

func (r *referee) leave(who string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.inside, who)
}

// document looks at one as it is stored: the count of shared locks is right, no
// lock ID is there twice, nothing is exclusive and shared, and tokens do not fall.
// It reports whether there is a lock.
func (r *referee) document(raw bson.Raw) (locked bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	locks, err := raw.Lookup("shared", "locks").Array().Values()
	if err != nil {
		r.note("shared.locks: %v", err)
		return false
	}
	if count, ok := raw.Lookup("shared", "count").AsInt64OK(); !ok || int(count) != len(locks) {
		r.note("shared.count is %v, and there are %d", raw.Lookup("shared", "count"), len(locks))
	}
	acquired, ok := raw.Lookup("exclusive", "acquired").BooleanOK()
	if !ok || acquired && len(locks) > 0 {
		r.note("it is exclusive and shared: %v", raw)
	}
	ids := make(map[string]bool)
	for _, l := range locks {
		id := l.Document().Lookup("lockId").StringValue()
		if ids[id] {
			r.note("%s has it twice: %v", id, raw)
		}
		ids[id] = true
	}
	if fence, ok := raw.Lookup("fence").AsInt64OK(); ok {
		if fence < r.fence {
			r.note("the token was %d and is %d", r.fence, fence)
		}
		r.fence = fence
	}
	return acquired || len(locks) > 0
}

// The referee must see what is wrong, or its silence means nothing.
func TestReferee(t *testing.T) {
	const x, s = driver.Exclusive, driver.Shared
	for name, c := range map[string]struct {
		limit int
		play  func(*referee)
		fault string
	}{
		"one after the other": {0, func(r *referee) { r.enter("a", x, 0); r.leave("a"); r.enter("b", x, 0); r.leave("b") }, ""},
		"two exclusive":       {0, func(r *referee) { r.enter("a", x, 0); r.enter("b", x, 0) }, "overlap: b is granted it (exclusive) while a"},
		"shared beside one":   {0, func(r *referee) { r.enter("a", x, 0); r.enter("b", s, 0) }, "overlap: b"},
		"exclusive beside":    {0, func(r *referee) { r.enter("a", s, 0); r.enter("b", x, 0) }, "overlap: b"},
		"shared":              {0, func(r *referee) { r.enter("a", s, 0); r.enter("b", s, 0); r.enter("c", s, 0) }, ""},
		"within the limit":    {2, func(r *referee) { r.enter("a", s, 0); r.enter("b", s, 0); r.leave("a"); r.enter("c", s, 0) }, ""},
		"above the limit":     {2, func(r *referee) { r.enter("a", s, 0); r.enter("b", s, 0); r.enter("c", s, 0) }, "2 share it already"},
		"tokens": {0, func(r *referee) {
			r.enter("a", s, 7)
			r.enter("b", s, 6)
			r.leave("a")
			r.leave("b")
			r.enter("c", x, 8)
		}, ""},
		"a token twice":      {0, func(r *referee) { r.enter("a", s, 7); r.enter("b", s, 7) }, "token 7 of b"},
		"a lower token":      {0, func(r *referee) { r.enter("a", x, 7); r.leave("a"); r.enter("b", x, 6) }, "token 6 of b"},
		"a good document":    {0, func(r *referee) { r.document(stored(2, false, 7, "a", "b")); r.document(stored(0, true, 7)) }, ""},
		"count too high":     {0, func(r *referee) { r.document(stored(3, false, 0, "a", "b")) }, "and there are 2"},
		"count too low":      {0, func(r *referee) { r.document(stored(0, false, 0, "a")) }, "and there are 1"},
		"both":               {0, func(r *referee) { r.document(stored(1, true, 0, "a")) }, "exclusive and shared"},
		"twice":              {0, func(r *referee) { r.document(stored(2, false, 0, "a", "a")) }, "a has it twice"},
		"a token that falls": {0, func(r *referee) { r.document(stored(0, false, 7)); r.document(stored(0, false, 6)) }, "was 7 and is 6"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReferee(c.limit)
			c.play(r)
			all := strings.Join(r.faults, "\n")
			if (c.fault == "") != (all == "") || !strings.Contains(all, c.fault) {
				t.Errorf("faults %q, want %q", all, c.fault)
			}
		})
	}
}

func stored(count int, acquired bool, fence int64, ids ...string) bson.Raw {
	locks := bson.A{}
	for _, id := range ids {
		locks = append(locks, bson.M{"lockId": id})
	}
	raw, err := bson.Marshal(bson.M{
		"exclusive": bson.M{"acquired": acquired}, "shared": bson.M{"count": count, "locks": locks}, "fence": fence,
	})
	if err != nil {
		panic(err)
	}
	return raw
}
