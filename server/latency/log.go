// Package latency keeps how long the calls of a store took in the last quarter of an hour. A
// Log takes some 10 KiB for each operation, whatever the number of calls.
package latency

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

const (
	// Slots is how many parts of the time a Log tells apart.
	Slots = 30
	// SlotTime is how long each of them is.
	SlotTime = 30 * time.Second
)

// The times are counted by their size: four sizes to each doubling, from least on. So what a
// Log says is at most a fifth too long, and never too short.
const (
	least       = 50 * time.Microsecond
	perDoubling = 4
	sizes       = 21*perDoubling + 1 // up to 105 s
)

// Log keeps the calls. All methods may be called concurrently.
type Log struct {
	mu       sync.Mutex
	began    time.Time
	ops      []*series
	failing  time.Time
	answered time.Time
}

// series are the calls of one operation. The slots are a ring.
type series struct {
	name  string
	slots [Slots]slot
}

// slot are the calls that ended in one part of the time.
type slot struct {
	number  int64 // since the Log began
	calls   int
	failed  int
	slowest time.Duration
	sizes   [sizes]uint32
}

// New returns a Log of no calls.
func New() *Log { return &Log{began: time.Now()} }

// StoreCall notes a call that has returned, as server.Observer is told of it. Calls that ended
// because their caller did are left out: they say nothing of the store.
func (l *Log) StoreCall(_ context.Context, op string, took time.Duration, err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	now, ok := time.Now(), isAnswer(err)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case ok:
		l.answered, l.failing = now, time.Time{}
	case l.failing.IsZero():
		l.failing = now.Add(-took)
	}
	s := l.series(op).at(l.slot(now))
	s.calls++
	if !ok {
		s.failed++
	}
	s.slowest = max(s.slowest, took)
	s.sizes[sizeOf(took)]++
}

// isAnswer reports whether the store has said something of what it was asked, be it a refusal.
func isAnswer(err error) bool {
	return err == nil || slices.ContainsFunc([]error{
		driver.ErrHeld, driver.ErrInvalid, driver.ErrUnsupported, driver.ErrDamaged,
	}, func(answer error) bool { return errors.Is(err, answer) })
}

func (l *Log) slot(now time.Time) int64 { return int64(now.Sub(l.began) / SlotTime) }

func (l *Log) series(op string) *series {
	for _, s := range l.ops { // they are few
		if s.name == op {
			return s
		}
	}
	s := &series{name: op}
	for i := range s.slots {
		s.slots[i].number = -1
	}
	l.ops = append(l.ops, s)
	return s
}

// at returns the slot, emptied if it still has what is older.
func (s *series) at(number int64) *slot {
	at := &s.slots[number%Slots]
	if at.number != number {
		*at = slot{number: number}
	}
	return at
}

// sizeOf returns the smallest size that is not smaller than d.
func sizeOf(d time.Duration) int {
	if d <= least {
		return 0
	}
	return min(int(math.Ceil(perDoubling*math.Log2(float64(d)/float64(least)))), sizes-1)
}

func timeOf(size int) time.Duration {
	return time.Duration(float64(least) * math.Exp2(float64(size)/perDoubling))
}

// Op are the calls of one operation.
type Op struct {
	Name string
	Span
	Slots [Slots]Span // the last one is now
}

// Span are the calls of a time.
type Span struct {
	// Failed calls were not answered, or by an error that is not about the request. They count
	// as calls, with the time that they took.
	Calls, Failed int
	// Half of the calls took Half at most, and 99 of 100 Most.
	Half, Most, Slowest time.Duration
}

// Ops returns the operations of which there were calls, by name.
func (l *Log) Ops() (ops []Op) {
	l.mu.Lock()
	defer l.mu.Unlock()
	newest := l.slot(time.Now())
	for _, s := range l.ops {
		op, all := Op{Name: s.name}, slot{}
		for i := range op.Slots {
			number := newest - Slots + 1 + int64(i)
			if number < 0 {
				continue
			}
			if at := &s.slots[number%Slots]; at.number == number {
				op.Slots[i] = at.span()
				all.add(at)
			}
		}
		if op.Span = all.span(); op.Calls > 0 {
			ops = append(ops, op)
		}
	}
	slices.SortFunc(ops, func(a, b Op) int { return cmp.Compare(a.Name, b.Name) })
	return ops
}

// Answers returns since when no call has been answered, if the last one was not, and when one
// was answered last. Both are zero if that is not so.
func (l *Log) Answers() (failing, answered time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failing, l.answered
}

// Answered returns when a call was answered last. It is zero if none was.
func (l *Log) Answered() time.Time {
	_, answered := l.Answers()
	return answered
}

func (s *slot) add(other *slot) {
	s.calls += other.calls
	s.failed += other.failed
	s.slowest = max(s.slowest, other.slowest)
	for i, n := range other.sizes {
		s.sizes[i] += n
	}
}

func (s *slot) span() Span {
	return Span{Calls: s.calls, Failed: s.failed, Half: s.within(0.5), Most: s.within(0.99), Slowest: s.slowest}
}

// within returns how long that part of the calls took at most.
func (s *slot) within(part float64) time.Duration {
	left := int(math.Ceil(part * float64(s.calls)))
	for size, n := range s.sizes {
		if left -= int(n); left <= 0 && n > 0 {
			if size == sizes-1 {
				break
			}
			return min(timeOf(size), s.slowest)
		}
	}
	return s.slowest
}
