package lock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/eslock"
)

// maxTries bounds how often an Acquire begins anew, because what it was about to
// extend went away or the index was missing.
const maxTries = 5

// heldError has the text that programs compare with.
type heldError struct{ by *driver.HeldError }

func (heldError) Error() string   { return "lock held by other client" }
func (e heldError) Unwrap() error { return e.by }

// Acquire acquires the lock for that long, or extends it if the owner has it, and
// returns at once: the error "lock held by other client" says that another owner
// has it. The TTL is at least 1 ms and at most 100 years; what it has below a
// millisecond is cut off. To extend never shortens: Expires says when it ends.
//
// The server has a third of the TTL to answer, at least 1 s and at most 10 s. The
// first Acquire through a client has the server make or look at the index, and
// compile the scripts, before that: in at most 10 s. After another error, which may come from a connection that failed, a lock that
// was granted unheard is given back, if that is possible within five seconds: in
// the background, if the first try fails or ctx has ended. One that was held
// before lives on to its end.
func (l *Lock) Acquire(ctx context.Context, ttl time.Duration) error {
	ref, err := l.ref()
	if err == nil {
		ttl, err = validTTL(ttl)
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return wrap("acquire", l.ID, err)
	}
	s := l.state
	if err := s.begin(ctx); err != nil {
		return wrap("acquire", ref.Resource, err)
	}
	defer s.done()
	return l.acquire(ctx, ref, ttl)
}

func validTTL(ttl time.Duration) (time.Duration, error) {
	if ttl < time.Millisecond || ttl > driver.MaxTTL {
		return 0, fmt.Errorf("%w: TTL %v is not between 1 ms and 100 years", driver.ErrInvalid, ttl)
	}
	return ttl.Truncate(time.Millisecond), nil
}

// acquire is Acquire of what is valid. The turn is the caller's.
func (l *Lock) acquire(ctx context.Context, ref driver.HoldRef, ttl time.Duration) error {
	s := l.state
	s.mu.Lock()
	s.tried = true
	s.mu.Unlock()
	err := s.obtain(ctx, ref, ttl)
	s.mu.Lock()
	defer s.mu.Unlock()
	l.show()
	var held heldError
	switch {
	case errors.As(err, &held):
		return held // programs compare the text
	case err != nil:
		return wrap("acquire", ref.Resource, err)
	case s.hold.over != not:
		return wrap("acquire", ref.Resource, errors.New("it was released meanwhile"))
	case !s.held():
		// The owner still has it, but nobody could use that.
		return wrap("acquire", ref.Resource, fmt.Errorf("the answer came when the lock was about to end: %w", holdfast.ErrTTLTooShort))
	}
	s.keeping.nudge()
	return nil
}

// obtain extends what is held, joins what another Lock of the owner holds, or
// asks for a new hold.
func (s *state) obtain(ctx context.Context, ref driver.HoldRef, ttl time.Duration) (err error) {
	prepared := false
	if !s.isPrepared() {
		// A node that has just started needs longer for the scripts than a lock with a
		// short TTL has.
		err := s.prepare(ctx, firstUse)
		if err != nil && !errors.Is(err, driver.ErrUnusable) { // whoever may not look may still lock
			return err
		}
		prepared = err == nil
	}
	for range maxTries {
		if own := s.own(ref); own != nil {
			err = s.again(ctx, own, ttl)
		} else {
			err = s.grant(ctx, ref, ttl)
		}
		var held *driver.HeldError
		if errors.As(err, &held) {
			err = s.join(ctx, held, ref, ttl)
		}
		switch {
		case errors.Is(err, driver.ErrUnusable) && !prepared:
			// It was deleted meanwhile, or is to be mended.
			if err := s.prepare(ctx, toPrepare); err != nil {
				return err
			}
			prepared = true
		case !errors.Is(err, driver.ErrLost):
			return err
		}
	}
	return err
}

const (
	// toPrepare bounds how long it takes to make or to look at the index.
	toPrepare = 30 * time.Second
	// firstUse bounds that before the first lock.
	firstUse = 10 * time.Second
)

func (s *state) prepare(ctx context.Context, within time.Duration) error {
	call, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if i, ok := s.store.(driver.Initializer); ok {
		if err := i.Init(call); err != nil {
			return err
		}
	}
	prepared.add(s.client)
	return nil
}

func (s *state) isPrepared() bool { return s.client == nil || prepared.has(s.client) }

// prepared are the clients that the index was last prepared through: a program has
// one or two, and makes many a Lock.
var prepared clients

type clients struct {
	mu   sync.Mutex
	last [8]eslock.Performer
	next int
}

func (c *clients) has(client eslock.Performer) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Contains(c.last[:], client)
}

func (c *clients) add(client eslock.Performer) {
	if client == nil || c.has(client) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last[c.next%len(c.last)] = client
	c.next++
}

// own returns the hold that may be extended, or nil.
func (s *state) own(ref driver.HoldRef) *hold {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.hold; h != nil && h.over == not && h.ref.Resource == ref.Resource && h.ref.LockID == ref.LockID {
		return h
	}
	return nil
}

// attemptTime bounds one request about a lock with that TTL, as holdfast.Client
// does.
func attemptTime(ttl time.Duration) time.Duration {
	return min(max(ttl/3, time.Second), 10*time.Second)
}

// unanswered says of a request that found no answer in its time that it was not
// the caller's ctx that ended.
func unanswered(ctx context.Context, ttl time.Duration, err error) error {
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return fmt.Errorf("no answer within %v, the most for a lock of %v: %w", attemptTime(ttl), ttl, err)
	}
	return err
}

// grant asks for a new hold.
func (s *state) grant(ctx context.Context, ref driver.HoldRef, ttl time.Duration) error {
	q := driver.AcquireRequest{Resource: ref.Resource, LockID: ref.LockID, HoldID: driver.NewHoldID(), TTL: ttl}
	ref.HoldID = q.HoldID
	call, cancel := context.WithTimeout(ctx, attemptTime(ttl))
	defer cancel()
	sent, at := s.clock(), time.Now()
	g, err := s.store.Acquire(call, q)
	if err != nil {
		if !definite(err) {
			s.giveBack(ctx, ref, ttl)
		}
		return unanswered(ctx, ttl, err)
	}
	ref.Token = g.Token
	s.mu.Lock()
	s.hold = &hold{ref: ref, ttl: ttl, acquired: at, expires: at.Add(ttl), end: sent + ttl}
	s.mu.Unlock()
	return nil
}

// join extends what the owner holds by another Lock or another program.
func (s *state) join(ctx context.Context, held *driver.HeldError, ref driver.HoldRef, ttl time.Duration) error {
	for _, h := range held.Holders {
		if h.LockID != ref.LockID || h.Mode != driver.Exclusive || !h.Live() || h.Released {
			continue
		}
		s.mu.Lock()
		_, late := s.given[h.HoldID]
		s.mu.Unlock()
		if late {
			// This Lock gave it up: the release that may be on its way would meet it. A
			// new hold is safe from that.
			if _, err := s.releaseOnce(ctx, h.Ref()); err != nil {
				return err
			}
			return driver.ErrLost
		}
		return s.again(ctx, &hold{ref: h.Ref(), acquired: h.Created}, ttl)
	}
	return heldError{held}
}

// again extends the hold because the caller asks for it, be it past the deadline.
func (s *state) again(ctx context.Context, h *hold, ttl time.Duration) error {
	call, cancel := context.WithTimeout(ctx, attemptTime(ttl))
	defer cancel()
	x, err := s.renew(call, h.ref, ttl)
	err = unanswered(ctx, ttl, err)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case h.over != not: // released meanwhile
	case errors.Is(err, driver.ErrLost):
		h.lose()
	case err == nil:
		h.extend(x)
		s.hold = h
	}
	return err
}

// extension is another end of a hold.
type extension struct {
	ttl, end time.Duration
	expires  time.Time
}

// renew asks for one. Of a hold of es-distributed-lock the ref just says whose it
// is.
func (s *state) renew(ctx context.Context, ref driver.HoldRef, ttl time.Duration) (extension, error) {
	sent, at := s.clock(), time.Now()
	results, err := s.store.Renew(ctx, []driver.RenewRequest{{HoldRef: ref, TTL: ttl}})
	if err == nil {
		err = first(results, func(r driver.RenewResult) error { return r.Err })
	}
	if err != nil {
		return extension{}, err
	}
	lives := ttl
	if left := results[0].Left; left > ttl && left <= driver.MaxTTL {
		lives = left // somebody of the owner asked for more
	}
	return extension{ttl, sent + lives, at.Add(lives)}, nil
}

// extend notes it. The hold never ends earlier than it would have. state.mu is
// held.
func (h *hold) extend(x extension) {
	h.ttl = x.ttl
	if x.end > h.end {
		h.end, h.expires = x.end, x.expires
	}
}

// lose notes that the hold is gone. state.mu is held.
func (h *hold) lose() {
	if h.over == not {
		h.over = lost
		h.shorten()
	}
}

// first is the error of a batch of one. What is missing is unknown.
func first[R any](results []R, errOf func(R) error) error {
	if len(results) == 0 {
		return errors.New("the store did not answer")
	}
	return errOf(results[0])
}

// definite reports whether err says that nothing was done.
func definite(err error) bool {
	for _, known := range []error{driver.ErrHeld, driver.ErrInvalid, driver.ErrUnsupported, driver.ErrUnusable, driver.ErrDamaged} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}
