package lease_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/storecall"
)

const (
	ttl    = 16 * time.Second
	margin = time.Second
	life   = ttl - margin // from when a request is sent
)

var (
	errLate     = errors.New("no answer")
	errReleased = lease.ErrReleased
	errClosed   = errors.New("closed")
)

// room has Leases and plays the store.
type room struct {
	*lease.Leases
	scope *storecall.Scope
	slept atomic.Int64
	renew func(context.Context, []driver.RenewRequest) ([]driver.RenewResult, error)

	watchLoss func(context.Context) (<-chan struct{}, error)

	mu          sync.Mutex // a test may read these without it after synctest.Wait
	renewals    [][]driver.RenewRequest
	lossWatches int
	forgotten   int
}

// store is a driver.Store of which only Renew is called.
type store struct {
	driver.Store
	r *room
}

func newRoom(t *testing.T) *room {
	began := time.Now()
	r := &room{renew: func(_ context.Context, qs []driver.RenewRequest) ([]driver.RenewResult, error) {
		return make([]driver.RenewResult, len(qs)), nil
	}}
	r.watchLoss = func(context.Context) (<-chan struct{}, error) { return nil, driver.ErrUnsupported }
	r.scope = storecall.NewScope(func() time.Duration { return time.Since(began) + time.Duration(r.slept.Load()) })
	r.Leases = lease.New(lease.Config{
		Scope: r.scope, Store: store{r: r},
		Margin:  func(time.Duration) time.Duration { return margin },
		Loss:    func(_ *lease.Lease, cause error) error { return cause },
		Started: func(*lease.Lease) {}, Ended: func(*lease.Lease, error) {}, Lost: func(*lease.Lease, error) {},
		Renewed:   func(*lease.Lease, time.Duration, time.Duration, error) {},
		Forgotten: func(*lease.Lease, time.Duration) { r.mu.Lock(); defer r.mu.Unlock(); r.forgotten++ },
	})
	t.Cleanup(func() {
		_, running := r.Leases.Close(errClosed)
		r.CloseRunning(running, errClosed)
		r.scope.End()
		r.scope.Close()
		r.scope.Leave()
		<-r.scope.Idle
	})
	return r
}

func (s store) Renew(ctx context.Context, qs []driver.RenewRequest) ([]driver.RenewResult, error) {
	r := s.r
	r.mu.Lock()
	r.renewals = append(r.renewals, qs)
	renew := r.renew
	r.mu.Unlock()
	return renew(ctx, qs)
}

// answers makes the store answer in the given way from now on.
func (r *room) answers(renew func(context.Context, []driver.RenewRequest) ([]driver.RenewResult, error)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.renew = renew
}

func (s store) WatchLoss(ctx context.Context) (<-chan struct{}, error) {
	s.r.mu.Lock()
	s.r.lossWatches++
	s.r.mu.Unlock()
	return s.r.watchLoss(ctx)
}

// sizes returns the sizes of the batches since the last call.
func (r *room) sizes() (sizes []int) {
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, qs := range r.renewals {
		sizes = append(sizes, len(qs))
	}
	r.renewals = nil
	return sizes
}

func newLease() *lease.Lease {
	return &lease.Lease{Ref: driver.HoldRef{Resource: "r", LockID: "a", HoldID: driver.NewHoldID(), Token: 7}, Keep: true, Ctx: context.Background()}
}

// add begins a hold.
func (r *room) add(t *testing.T) *lease.Lease {
	t.Helper()
	l, now := newLease(), r.scope.Clock()
	if !r.Add(l, now, now, ttl, ttl) {
		t.Fatal("Add returned false")
	}
	return l
}

// ended fails unless the hold has ended with the given cause; nil means that it must be live.
func ended(t *testing.T, l *lease.Lease, want error) {
	t.Helper()
	if got := context.Cause(l.Context()); (want == nil) != (got == nil) || !errors.Is(got, want) {
		t.Fatalf("the hold ended with %v, want %v", got, want)
	}
}

func bubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// Revoke ends a hold, and everything that is bound to it, before it returns, even if the
// hold's grant arrives later.
func TestRevoke(t *testing.T) {
	for _, forced := range []bool{false, true} {
		want := errReleased
		if forced {
			want = lease.ErrForced
		}
		bubble(t, want.Error(), func(t *testing.T) {
			r := newRoom(t)
			l, late, later, other := r.add(t), newLease(), newLease(), newLease()
			ctx, cancel := l.Bind(t.Context())
			defer cancel()
			refs := []driver.HoldRef{l.Ref, late.Ref, later.Ref, other.Ref}
			own := r.Revoke(refs, forced)
			if !slices.Equal(own, []*lease.Lease{l, nil, nil, nil}) || !errors.Is(context.Cause(ctx), want) {
				t.Errorf("own holds %v, bound context: %v", own, context.Cause(ctx))
			}
			ended(t, l, want)
			r.Forget(refs)
			other.Ref.Token++ // another grant of the same hold ID
			for _, l := range []*lease.Lease{late, other} {
				r.Add(l, 0, 0, ttl, ttl)
			}
			ended(t, late, want)
			ended(t, other, nil)
			time.Sleep(31 * time.Second)
			r.Add(later, r.scope.Clock(), r.scope.Clock(), ttl, ttl)
			ended(t, later, nil)
		})
	}
}

// Close ends all holds, but for running functions of Do only the contexts: these holds are
// renewed until the functions return. No hold begins after Close.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(t)
		idle, busy := r.add(t), r.add(t)
		if !busy.EnterDo() {
			t.Error("EnterDo returned false")
		}
		closed, running := r.Leases.Close(errClosed)
		if !slices.Equal(closed, []*lease.Lease{idle}) || !slices.Equal(running, []*lease.Lease{busy}) {
			t.Errorf("closed %v, running %v", closed, running)
		}
		ended(t, idle, errClosed)
		ended(t, busy, errClosed)
		now := r.scope.Clock()
		if r.Add(newLease(), now, now, ttl, ttl) || idle.EnterDo() {
			t.Error("a hold or a Do begins after Close")
		}
		r.sizes()
		time.Sleep(ttl)
		if sizes := r.sizes(); len(sizes) < 2 || sizes[0] != 1 {
			t.Errorf("the batches have the sizes %v", sizes)
		}
		waited := false
		go func() { r.Wait(); waited = true }()
		synctest.Wait()
		if waited {
			t.Error("Wait returned before Do")
		}
		if e := busy.End(errReleased, 0); e.State != lease.Released || !e.InDo {
			t.Errorf("the hold of Do ended with %+v", e)
		}
		busy.LeaveDo()
		synctest.Wait()
		if !waited || len(r.CloseRunning(running, errClosed)) != 1 {
			t.Error("the hold of a returned Do is not to be released")
		}
	})
}

// Contexts that are bound to a hold have ended when End returns, even if something else ends
// the hold at the same time.
func TestEndWaitsForBound(t *testing.T) {
	for i := range 400 {
		r := newRoom(t)
		l := r.add(t)
		r.answers(func(context.Context, []driver.RenewRequest) ([]driver.RenewResult, error) {
			return []driver.RenewResult{{Err: driver.ErrLost}}, nil
		})
		var bound []context.Context
		for range 100 {
			ctx, cancel := l.Bind(context.Background())
			defer cancel()
			bound = append(bound, ctx)
		}
		var all sync.WaitGroup
		begin := make(chan struct{})
		for _, other := range []func(){
			func() { r.Revoke([]driver.HoldRef{l.Ref}, i%2 == 0) },
			func() { _, _ = l.Renew(context.Background(), 0) },
			func() { r.slept.Add(int64(time.Duration(i%3) * ttl)) },
			func() { l.Context() },
		} {
			all.Go(func() { <-begin; other() })
		}
		for range 2 {
			all.Go(func() {
				<-begin
				l.End(errReleased, 0)
				for _, ctx := range bound {
					if ctx.Err() == nil {
						t.Error("End returned before a bound context ended")
						return
					}
				}
			})
		}
		close(begin)
		all.Wait()
	}
}

// The deadline counts from before the request, by any kind of renewal and however late the
// answer comes. An answer after the deadline, or after the end, changes nothing.
func TestDeadlineCountsFromTheSend(t *testing.T) {
	const slow = 2 * time.Second
	ask := map[string]func(r *room, l *lease.Lease) error{
		"by the holder": func(_ *room, l *lease.Lease) error {
			_, err := l.Renew(context.Background(), 2*ttl)
			return err
		},
		"by others": func(r *room, l *lease.Lease) error {
			return r.Renew(context.Background(), []driver.HoldRef{l.Ref}, 2*ttl)[0].Err
		},
	}
	for name, renew := range ask {
		for _, before := range []string{"", "deadline", "end"} {
			bubble(t, name+before, func(t *testing.T) {
				r := newRoom(t)
				l := newLease()
				l.Keep = false
				r.Add(l, 0, 0, ttl, ttl)
				r.answers(func(context.Context, []driver.RenewRequest) ([]driver.RenewResult, error) {
					time.Sleep(slow)
					return make([]driver.RenewResult, 1), nil
				})
				late := newLease()
				late.Keep = false
				if r.Add(late, -time.Second, 0, ttl, ttl); l.Left() != life || late.Left() != life-time.Second {
					t.Errorf("%v left after the grant, %v after a late one", l.Left(), late.Left())
				}
				switch before {
				case "deadline":
					time.Sleep(life - slow)
					if err := renew(r, l); err != nil && !errors.Is(err, lease.ErrExpired) {
						t.Errorf("error %v", err)
					}
					ended(t, l, lease.ErrExpired)
				case "end":
					time.AfterFunc(slow/2, func() { l.End(errReleased, 0) })
					if err := renew(r, l); err != nil && !errors.Is(err, errReleased) {
						t.Errorf("error %v", err)
					}
					ended(t, l, errReleased)
				default:
					time.Sleep(time.Second)
					if err := renew(r, l); err != nil || l.Left() != 2*ttl-margin-slow {
						t.Errorf("%v left after the renewal; error %v", l.Left(), err)
					}
				}
				if l.Left() != 0 && before != "" {
					t.Error("a late answer counted")
				}
			})
		}
	}
}

// One hold that makes each batch fail loses no other hold. Batches grow again when it is
// gone.
func TestBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(t)
		var all []*lease.Lease
		for range 2500 {
			all = append(all, r.add(t))
		}
		time.Sleep(ttl / 2)
		if sizes := slices.Sorted(slices.Values(r.sizes())); !slices.Equal(sizes, []int{500, 1000, 1000}) {
			t.Errorf("batches of %v", sizes)
		}
		poison := all[7]
		r.answers(func(ctx context.Context, qs []driver.RenewRequest) ([]driver.RenewResult, error) {
			if slices.ContainsFunc(qs, func(q driver.RenewRequest) bool { return q.HoldRef == poison.Ref }) {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return make([]driver.RenewResult, len(qs)), nil
		})
		time.Sleep(2 * ttl)
		if cause := context.Cause(poison.Context()); !errors.Is(cause, lease.ErrUnreachable) || !errors.Is(cause, context.DeadlineExceeded) {
			t.Errorf("the hold without an answer ended with %v", cause)
		}
		for _, l := range all {
			if l != poison {
				ended(t, l, nil)
			}
		}
		if sizes := r.sizes(); slices.Max(sizes[len(sizes)/2:]) > 500 {
			t.Errorf("batches did not shrink: %v", sizes)
		}
		time.Sleep(10 * ttl)
		if sizes := r.sizes(); slices.Max(sizes) != 1000 {
			t.Errorf("batches did not grow: %v", sizes)
		}
	})
}

// All holds are renewed when WatchLoss returns and at each signal. Renewals that are under
// way then are repeated.
func TestLossWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(t)
		signals := make(chan struct{})
		r.watchLoss = func(context.Context) (<-chan struct{}, error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.lossWatches < 3 {
				return nil, errLate
			}
			return signals, nil
		}
		l := r.add(t)
		time.Sleep(4 * time.Second) // the timer fires once a second
		if n := len(r.sizes()); n != 1 || r.lossWatches != 3 {
			t.Errorf("%d renewals after %d calls of WatchLoss", n, r.lossWatches)
		}
		answers := make(chan struct{})
		r.answers(func(context.Context, []driver.RenewRequest) ([]driver.RenewResult, error) {
			<-answers
			return make([]driver.RenewResult, 1), nil
		})
		signals <- struct{}{}
		if n := len(r.sizes()); n != 1 {
			t.Errorf("%d renewals after a signal", n)
		}
		time.Sleep(time.Second)
		signals <- struct{}{} // while the renewal is under way
		if n := len(r.sizes()); n != 0 {
			t.Errorf("%d renewals beside the one under way", n)
		}
		close(answers)
		if n := len(r.sizes()); n != 1 {
			t.Errorf("%d renewals after the answer", n)
		}
		close(signals)
		l.End(errReleased, 0)
	})
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(t)
		r.add(t)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if r.lossWatches != 1 {
			t.Errorf("a store that notices no losses got %d calls of WatchLoss", r.lossWatches)
		}
	})
}

// After a suspension that was longer than the time left, every method reports the loss. After
// a shorter one the hold is renewed within a second.
func TestSuspension(t *testing.T) {
	look := map[string]func(l *lease.Lease) bool{
		"context": func(l *lease.Lease) bool { return l.Context().Err() != nil },
		"bound": func(l *lease.Lease) bool {
			ctx, cancel := l.Bind(context.Background())
			defer cancel()
			return ctx.Err() != nil
		},
		"left":  func(l *lease.Lease) bool { return l.Left() == 0 },
		"end":   func(l *lease.Lease) bool { return l.End(errReleased, 0).State == lease.Lost },
		"timer": func(l *lease.Lease) bool { time.Sleep(time.Second); synctest.Wait(); return l.End(nil, 0).Repeated },
	}
	for name, lost := range look {
		bubble(t, name, func(t *testing.T) {
			r := newRoom(t)
			l := r.add(t)
			ctx := l.Context()
			time.Sleep(100 * time.Millisecond)
			r.slept.Add(int64(life / 2))
			time.Sleep(time.Second)
			if n := len(r.sizes()); n != 1 || ctx.Err() != nil {
				t.Errorf("%d renewals after a short suspension", n)
			}
			r.slept.Add(int64(life))
			if !lost(l) {
				t.Error("the hold has not ended")
			}
		})
	}
}

// A definite answer in time ends a hold at once, and short locks that fail take no time from
// long ones.
func TestAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(t)
		l, long := r.add(t), newLease()
		r.Add(long, 0, 0, 20*ttl, 20*ttl)
		r.answers(func(ctx context.Context, qs []driver.RenewRequest) ([]driver.RenewResult, error) {
			if slices.ContainsFunc(qs, func(q driver.RenewRequest) bool { return q.TTL == ttl }) {
				return []driver.RenewResult{{Err: driver.ErrLost}}, nil
			}
			<-ctx.Done()
			return nil, ctx.Err()
		})
		time.Sleep(ttl / 2)
		ended(t, l, lease.ErrForced)
		r.sizes()
		// The holder's own renewals fail again and again, and do not delay the Client's next
		// renewal.
		for long.Left() > time.Minute {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			_, _ = long.Renew(ctx, 0)
			cancel()
			time.Sleep(time.Second)
		}
		synctest.Wait()
		kept := 0
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, qs := range r.renewals {
			if len(qs) == 1 && qs[0].HoldRef == long.Ref {
				kept++
			}
		}
		if kept < 240+5 {
			t.Errorf("%d renewals, of which the holder made one a second", kept)
		}
	})
}

// A renewal to Forever without an answer may have been applied: the loss is reported, to
// clean the store up.
func TestEndlessIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(t)
		a, b, c := r.add(t), r.add(t), r.add(t)
		r.answers(func(context.Context, []driver.RenewRequest) ([]driver.RenewResult, error) { return nil, errLate })
		_, _ = a.Renew(t.Context(), driver.Forever)
		_ = r.Renew(t.Context(), []driver.HoldRef{b.Ref}, driver.Forever)
		if e := a.End(errReleased, 0); !e.Endless {
			t.Errorf("the hold ended with %+v", e)
		}
		time.Sleep(ttl)
		ended(t, c, lease.ErrUnreachable)
		synctest.Wait()
		if r.forgotten != 1 {
			t.Errorf("Forgotten was called for %d holds, want only b", r.forgotten)
		}
	})
}

// However many answers are lost or late, no context outlives its deadline by more than a tick
// of the timer, and none ends before it without a reason.
func TestRandomAnswers(t *testing.T) {
	for range 40 {
		synctest.Test(t, func(t *testing.T) {
			r := newRoom(t)
			bad, suspends := rand.N(100), rand.N(2) == 0
			var mu sync.Mutex
			deadlines, tries, lostBy := map[driver.HoldID]time.Duration{}, map[driver.HoldID]int{}, map[driver.HoldID]bool{}
			r.answers(func(ctx context.Context, qs []driver.RenewRequest) ([]driver.RenewResult, error) {
				sent, late := r.scope.Clock(), rand.N(100*time.Millisecond)
				if rand.N(100) < bad {
					late = rand.N(8 * time.Second)
				}
				select {
				case <-time.After(late):
				case <-ctx.Done():
				}
				mu.Lock()
				defer mu.Unlock()
				results := make([]driver.RenewResult, len(qs))
				for i, q := range qs {
					tries[q.HoldID]++
					switch now := r.scope.Clock(); {
					case rand.N(100) < bad || ctx.Err() != nil:
						results[i].Err = errLate
					case rand.N(200) == 0:
						results[i].Err = driver.ErrLost
						lostBy[q.HoldID] = true
					case now < deadlines[q.HoldID]:
						deadlines[q.HoldID], tries[q.HoldID] = max(deadlines[q.HoldID], sent+life), 0
					}
				}
				return results, nil
			})
			stop := make(chan struct{})
			go func() {
				for suspends {
					select {
					case <-stop:
						return
					case <-time.After(2*time.Second + rand.N(20*time.Second)):
						r.slept.Add(int64(rand.N(10 * time.Second)))
					}
				}
			}()
			var all sync.WaitGroup
			for range 60 {
				all.Go(func() {
					time.Sleep(rand.N(ttl))
					l, now := newLease(), r.scope.Clock()
					id := l.Ref.HoldID
					mu.Lock()
					deadlines[id] = now + life
					mu.Unlock()
					r.Add(l, now, now, ttl, ttl)
					ctx := l.Context()
					select {
					case <-ctx.Done():
					case <-time.After(10 * ttl):
						l.End(errReleased, 0)
						return
					}
					late := r.scope.Clock() - deadlines[id]
					mu.Lock()
					defer mu.Unlock()
					switch cause := context.Cause(ctx); {
					case errors.Is(cause, lease.ErrForced):
						if !lostBy[id] {
							t.Error("the store did not report the loss")
						}
					case late < 0 || late > 0 && !suspends || late > 11*time.Second:
						t.Errorf("a context ended %v after its deadline: %v", late, cause)
					case tries[id] < 2 && !suspends:
						t.Errorf("lost after %d attempts: %v", tries[id], cause)
					}
				})
			}
			all.Wait()
			close(stop)
		})
	}
}
