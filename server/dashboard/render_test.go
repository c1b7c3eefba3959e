package dashboard_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/server/access"
	"github.com/holdfast-go/holdfast/server/budget"
	"github.com/holdfast-go/holdfast/server/dashboard"
)

// counting counts how often its rights are looked at for a resource.
type counting struct {
	caller
	asked *atomic.Int64
}

func (c counting) May(v access.Verb, resource string) bool {
	c.asked.Add(1)
	return c.caller.May(v, resource)
}

// crowd are callers of a dashboard by their names. Each may look at what begins with its own
// name, root at everything, and is an operator.
func crowd(t *testing.T, b *budget.Budget, test func(s *scene, asked *atomic.Int64)) {
	t.Helper()
	asked := new(atomic.Int64)
	with(t, func() dashboard.Options {
		return dashboard.Options{Budget: b, Identify: func(r *http.Request) (access.Caller, error) {
			who := caller{name: r.Header.Get("Who"), look: r.Header.Get("Who")}
			if who.name == "root" {
				who.look = ""
				return operator{counting{who, asked}}, nil
			}
			return counting{who, asked}, nil
		}}
	}, func(s *scene) { test(s, asked) })
}

type operator struct{ counting }

func (operator) MayAll(access.Verb) bool { return true }

func (s *scene) as(ctx context.Context, who, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil)
	r.Header.Set("Who", who)
	s.pages.ServeHTTP(deadlines{w}, r)
	return w
}

// However many ask for a page at a time, it is made once for each caller and look.
func TestPagesAreMadeOnce(t *testing.T) {
	crowd(t, nil, func(s *scene, asked *atomic.Int64) {
		s.hold(driver.AcquireRequest{Resource: "a1"})
		s.hold(driver.AcquireRequest{Resource: "b1"})
		page := func(who, path string) string { return plain(s.as(s.Context(), who, path).Body.String()) }
		page("a", "/")
		once := asked.Swap(0)
		time.Sleep(3 * time.Second)
		var all sync.WaitGroup
		for range 64 {
			all.Go(func() {
				if p := page("a", "/"); !strings.Contains(p, "a1") || strings.Contains(p, "b1") {
					s.Errorf("%s", p)
				}
			})
		}
		all.Wait()
		if n := asked.Swap(0); n != once {
			s.Errorf("64 pages look at rights %d times, one does %d times", n, once)
		}
		if p := page("b", "/"); !strings.Contains(p, "b1") || strings.Contains(p, "a1") {
			s.Errorf("another caller sees %s", p)
		}
		if p := page("a", "/?q=nothing"); strings.Contains(p, "a1") {
			s.Errorf("another page is %s", p)
		}
		asked.Store(0)
		time.Sleep(time.Second)
		if page("a", "/"); asked.Load() != once {
			s.Error("a page is shown for more than a second")
		}
	})
}

// A page is not kept for whoever has no name and sees a part.
func TestPagesOfNobody(t *testing.T) {
	with(t, func() dashboard.Options {
		return dashboard.Options{Identify: func(r *http.Request) (access.Caller, error) {
			return caller{look: r.Header.Get("Who")}, nil
		}}
	}, func(s *scene) {
		s.hold(driver.AcquireRequest{Resource: "a1"})
		s.hold(driver.AcquireRequest{Resource: "b1"})
		for _, who := range []string{"a", "b", "a"} {
			if p := plain(s.as(s.Context(), who, "/").Body.String()); !strings.Contains(p, who+"1") || strings.Count(p, "a1")+strings.Count(p, "b1") != 1 {
				s.Errorf("%s sees %s", who, p)
			}
		}
	})
}

// A page that nobody waits for any more is made for those who do.
func TestPageWhoseVisitorIsGone(t *testing.T) {
	crowd(t, nil, func(s *scene, _ *atomic.Int64) {
		s.hold(driver.AcquireRequest{Resource: "a1"})
		s.as(s.Context(), "a", "/")
		s.store.takes = 2 * time.Second
		time.Sleep(10 * time.Second)
		ctx, cancel := context.WithCancel(s.Context())
		var all sync.WaitGroup
		all.Go(func() {
			defer func() { _ = recover() }()
			s.as(ctx, "a", "/")
		})
		synctest.Wait()
		all.Go(func() {
			if w := s.as(s.Context(), "a", "/"); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "a1") {
				s.Errorf("%d %s", w.Code, w.Body)
			}
		})
		synctest.Wait()
		cancel()
		all.Wait()
	})
}

// Pages cost what is walked through and written. Who has none left takes them from nobody else,
// and least of all from an operator.
func TestPagesAreCharged(t *testing.T) {
	crowd(t, budget.New(nil), func(s *scene, _ *atomic.Int64) {
		for i := range 20_000 {
			s.hold(driver.AcquireRequest{Resource: fmt.Sprint("a", i), TTL: time.Hour})
		}
		s.as(s.Context(), "a", "/")
		made := 1
		for ; made < 1000; made++ {
			if w := s.as(s.Context(), "a", fmt.Sprintf("/?q=%d", made)); w.Code == http.StatusTooManyRequests && w.Header().Get("Retry-After") != "" {
				break
			}
		}
		if made < 5 || made > 60 {
			s.Errorf("%d pages are made", made)
		}
		for _, who := range []string{"b", "root"} {
			if w := s.as(s.Context(), who, "/"); w.Code != http.StatusOK {
				s.Errorf("%s gets %d", who, w.Code)
			}
		}
		time.Sleep(2 * time.Second)
		if w := s.as(s.Context(), "a", "/"); w.Code != http.StatusOK {
			s.Errorf("two seconds later: %d", w.Code)
		}
	})
}

// Bodies that are sent slowly take the memory of their senders' share. Nobody without a right
// may send a large one.
func TestBodiesAreCharged(t *testing.T) {
	shares := map[budget.Stock]budget.Share{budget.Bodies: {Caller: 600 << 10, All: 10 << 20}}
	crowd(t, budget.New(&budget.Options{Shares: shares}), func(s *scene, _ *atomic.Int64) {
		post := func(who, path string, body io.Reader) int {
			w := httptest.NewRecorder()
			r := httptest.NewRequestWithContext(s.Context(), http.MethodPost, path, body)
			r.Header.Set("Who", who)
			r.Header.Set("Content-Type", "application/json")
			s.pages.ServeHTTP(w, r)
			return w.Code
		}
		slow, end := io.Pipe()
		var all sync.WaitGroup
		all.Go(func() { post("a", "/force", slow) })
		synctest.Wait()
		for _, c := range []struct {
			who, path, body string
			code            int
		}{
			{"a", "/force", `{}`, http.StatusTooManyRequests},
			{"a", "/look", `{"resource":"a1"}`, http.StatusOK},
			{"b", "/force", `{}`, http.StatusBadRequest},
			{"b", "/look", `{"resource":"b1"` + strings.Repeat(" ", 20_000) + `}`, http.StatusBadRequest},
		} {
			if code := post(c.who, c.path, strings.NewReader(c.body)); code != c.code {
				s.Errorf("%s %s: %d", c.who, c.path, code)
			}
		}
		_ = end.Close()
		all.Wait()
	})
}

// One caller takes its share of the live pages, and no more.
func TestTooManyStreams(t *testing.T) {
	shares := map[budget.Stock]budget.Share{budget.Streams: {Caller: 2, All: 3}}
	crowd(t, budget.New(&budget.Options{Shares: shares}), func(s *scene, _ *atomic.Int64) {
		ctx, cancel := context.WithCancel(s.Context())
		var all sync.WaitGroup
		stream := func(who string) <-chan int {
			ended := make(chan int, 1)
			all.Go(func() { ended <- s.as(ctx, who, "/events").Code })
			time.Sleep(time.Second)
			synctest.Wait()
			return ended
		}
		for i, c := range []struct {
			who  string
			lets bool
		}{{"a", true}, {"a", true}, {"a", false}, {"b", true}, {"c", false}, {"root", true}} {
			select {
			case code := <-stream(c.who):
				if c.lets || code != http.StatusTooManyRequests {
					s.Errorf("%d: the stream of %s ended with %d", i, c.who, code)
				}
			default:
				if !c.lets {
					s.Errorf("%d: %s has a stream", i, c.who)
				}
			}
		}
		cancel()
		all.Wait()
	})
}

func TestAuditCannotBeWritten(t *testing.T) {
	var err error
	with(t, func() dashboard.Options {
		return dashboard.Options{AuditErr: func() error { return err }}
	}, func(s *scene) {
		s.shows("/", "!audit")
		err = errors.New("/secret/path: no space left on device")
		time.Sleep(2 * time.Second)
		s.shows("/", "The audit cannot be written", "!secret")
	})
}

func TestAuthFileIsBroken(t *testing.T) {
	for who, want := range map[string]string{"operator": "The auth file is broken", "onlooker": "!auth file"} {
		c := map[string]access.Caller{"operator": access.Operator(), "onlooker": access.Onlooker()}[who]
		with(t, func() dashboard.Options {
			return dashboard.Options{
				AuthErr: func() error { return errors.New("/secret/path: line 2") }, Identify: func(*http.Request) (access.Caller, error) { return c, nil },
			}
		}, func(s *scene) { s.shows("/", want, "!secret") })
	}
}
