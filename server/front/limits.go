package front

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/httplock/wire"
)

// Limits bound what one caller may do, or one address where callers have no names. Renewals
// and releases are counted by themselves: none of them is refused because of what else the
// caller does. The zero value of a limit is its default.
type Limits struct {
	// Rate is how many requests a second the caller may send, and as many at once. Default:
	// 10,000.
	Rate int
	// Open is how many requests of the caller may be served at a time, waits and streams
	// among them. Default: 15,000.
	Open int
}

const (
	defaultRate = 10_000
	defaultOpen = 15_000
	// An address may send failureBurst requests without a caller at once, and then ten a
	// minute.
	failureBurst = 10
	failureRate  = 10.0 / 60
	// maxBuckets is how many callers and addresses are told apart. The others share a bucket.
	maxBuckets = 10_000
)

func (l Limits) withDefaults() (Limits, error) {
	if l.Rate < 0 || l.Open < 0 {
		return l, errors.New("a limit is negative")
	}
	return Limits{Rate: cmp.Or(l.Rate, defaultRate), Open: cmp.Or(l.Open, defaultOpen)}, nil
}

// lane is a kind of requests that has limits of its own.
type lane struct {
	limits Limits
	rates  *buckets

	mu   sync.Mutex
	open map[string]int
}

func newLane(l Limits) *lane {
	return &lane{limits: l, rates: newBuckets(float64(l.Rate), float64(l.Rate)), open: map[string]int{}}
}

// enter counts a request, unless that is one too many. The caller calls leave at its end.
func (l *lane) enter(key string, now time.Time) (leave func(), no *refusal) {
	if wait, ok := l.rates.take(key, now); !ok {
		return nil, &refusal{wire.KindBusy, fmt.Sprintf("the caller sends more than %d requests a second", l.limits.Rate), wait}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[key] >= l.limits.Open {
		return nil, &refusal{wire.KindBusy, fmt.Sprintf("%d requests of the caller are being served", l.limits.Open), time.Second}
	}
	l.open[key]++
	return func() { l.leave(key) }, nil
}

func (l *lane) leave(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[key]--; l.open[key] == 0 {
		delete(l.open, key)
	}
}

// buckets have tokens for each key. A request takes one; so many come back a second, up to
// the size of the bucket.
type buckets struct {
	rate, size float64

	mu  sync.Mutex
	all map[string]bucket
}

type bucket struct {
	tokens float64
	at     time.Time // when it had them
}

func newBuckets(rate, size float64) *buckets {
	return &buckets{rate: rate, size: size, all: map[string]bucket{}}
}

// take takes a token. If there is none, it returns how long until there is one.
func (b *buckets) take(key string, now time.Time) (wait time.Duration, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, known := b.all[key]; !known && len(b.all) >= maxBuckets {
		b.sweep(now)
		if len(b.all) >= maxBuckets {
			key = "" // that of all others
		}
	}
	tokens := b.size
	if last, known := b.all[key]; known {
		tokens = b.refilled(last, now)
	}
	if tokens < 1 {
		b.all[key] = bucket{tokens, now}
		return time.Duration(math.Ceil((1 - tokens) / b.rate * float64(time.Second))), false
	}
	b.all[key] = bucket{tokens - 1, now}
	return 0, true
}

func (b *buckets) refilled(last bucket, now time.Time) float64 {
	return min(b.size, last.tokens+max(0, now.Sub(last.at).Seconds())*b.rate)
}

// sweep removes the buckets that are full: they are as those that are not there.
func (b *buckets) sweep(now time.Time) {
	for key, last := range b.all {
		if b.refilled(last, now) >= b.size {
			delete(b.all, key)
		}
	}
}
