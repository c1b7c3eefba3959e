package dashboard_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/server/access"
	"github.com/holdfast-go/holdfast/server/dashboard"
	"github.com/holdfast-go/holdfast/server/history"
)

// kept is a storage that a test fills, the oldest event first.
type kept struct {
	events []history.Event
	since  time.Time
	gaps   []history.Gap
	err    error
	hangs  bool
}

func (k *kept) Append(context.Context, []history.Event) (time.Time, error) { return k.since, nil }
func (k *kept) Open(context.Context) ([]history.Open, error)               { return nil, nil }
func (k *kept) KeepGaps(context.Context, []history.Gap, time.Time) error   { return nil }
func (k *kept) Close() error                                               { return nil }

func (k *kept) Gaps(context.Context) ([]history.Gap, time.Time, error) {
	return k.gaps, time.Time{}, nil
}

func (k *kept) choose(ctx context.Context, limit int, chosen func(history.Event) bool) (events []history.Event, err error) {
	if k.hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	for _, e := range slices.Backward(k.events) {
		if len(events) < limit && chosen(e) {
			events = append(events, e)
		}
	}
	return events, k.err
}

func (k *kept) Events(ctx context.Context, q history.Query) ([]history.Event, error) {
	return k.choose(ctx, q.Limit, func(e history.Event) bool {
		return (q.Resource == "" || e.Resource == q.Resource) && (q.Before == 0 || e.Number < q.Before) && !e.At.Before(q.Since)
	})
}

func (k *kept) Losses(ctx context.Context, since time.Time, limit int) ([]history.Event, error) {
	return k.choose(ctx, limit, func(e history.Event) bool { return e.Kind.Loss() && !e.At.Before(since) })
}

func (k *kept) Lengths(ctx context.Context, resource string, limit int) (lengths []time.Duration, err error) {
	events, err := k.choose(ctx, limit, func(e history.Event) bool {
		return e.Resource == resource && (e.Kind == history.Released || e.Kind == history.Gone)
	})
	for _, e := range events {
		lengths = append(lengths, e.Held)
	}
	return lengths, err
}

// note adds an event, that long ago.
func (k *kept) note(ago time.Duration, e history.Event) {
	e.Number, e.At = int64(len(k.events)+1), time.Now().Add(-ago)
	if e.RenewedAgo == 0 {
		e.RenewedAgo = driver.Unknown
	}
	k.events = append(k.events, e)
}

// withHistory runs the test, with a history that the test fills.
func withHistory(t *testing.T, who access.Caller, test func(*scene, *kept)) {
	t.Helper()
	k := new(kept)
	var log *history.Log
	with(t, func() dashboard.Options {
		k.since = time.Now().Add(-72 * time.Hour)
		var err error
		if log, err = history.New(context.Background(), k, &history.Options{Name: "server-1"}); err != nil {
			t.Fatal(err)
		}
		return dashboard.Options{History: log, Identify: func(*http.Request) (access.Caller, error) { return who, nil }}
	}, func(s *scene) {
		defer log.Close()
		test(s, k)
	})
}

func by(owner string) driver.Details { return driver.Details{Owner: owner, Host: "web1"} }

// A caller may use its hold ID again: each hold has a bar of its own.
func TestSameHoldID(t *testing.T) {
	withHistory(t, access.Onlooker(), func(s *scene, k *kept) {
		for i := range 3 {
			ago, token := time.Duration(30-10*i)*time.Minute, uint64(i+1)
			k.note(ago, history.Event{Kind: history.Granted, Resource: "r", Ref: "a", Token: token, Details: by("ada")})
			k.note(ago-5*time.Minute, history.Event{Kind: history.Released, Resource: "r", Ref: "a", Token: token, Details: by("ada"), Held: 5 * time.Minute})
		}
		if page := s.get("/history?name=r").Body.String(); strings.Count(page, "<rect") < 3 || !strings.Contains(page, "3 holds") {
			s.Error(page)
		}
	})
}

func TestGaps(t *testing.T) {
	var log *history.Log
	with(t, func() dashboard.Options {
		now := time.Now()
		k := &kept{since: now.Add(-72 * time.Hour), gaps: []history.Gap{
			{From: now.Add(-2 * time.Hour), To: now.Add(-time.Hour), Cause: history.Down},
			{From: now.Add(-4 * time.Hour), To: now.Add(-3 * time.Hour), Cause: history.Blind},
		}}
		var err error
		if log, err = history.New(context.Background(), k, nil); err != nil {
			t.Fatal(err)
		}
		k.note(90*time.Minute, history.Event{Kind: history.Lapsed, Resource: "r", Ref: "a", Held: time.Minute})
		return dashboard.Options{History: log}
	}, func(s *scene) {
		defer log.Close()
		s.shows("/history?name=r", "Not all is known from 2 h ago to 1 h ago: the server was not there.",
			"Not all is known from 4 h ago to 3 h ago: looks at the store failed", "lapsed its time was over meanwhile, or it was released")
	})
}

func TestNoHistory(t *testing.T) {
	as(t, access.Onlooker(), func(s *scene) {
		for _, path := range []string{"/history", "/history?name=r", "/resource?name=r"} {
			s.shows(path, "No history is kept, which would show here", "holdfast serve keeps one with --history FILE, and a program with a dashboard of its own gives it one as Options.History.", "!Start")
		}
		s.shows("/", "!Lost in the last hour", "!No history")
	})
}

func TestHistory(t *testing.T) {
	withHistory(t, caller{look: "mine/"}, func(s *scene, k *kept) {
		s.shows("/history", "Nothing has happened to what you may look at, as far back as the history goes.", "What server-1 has seen in the last 3 d.", "Only what passes through this server is seen here.")
		k.note(2*time.Hour, history.Event{Kind: history.Expired, Resource: "mine/old", Ref: "0", Held: time.Hour})
		k.note(50*time.Minute, history.Event{Kind: history.Granted, Resource: "mine/1", Ref: "a", Details: by("ada")})
		k.note(40*time.Minute, history.Event{Kind: history.Released, Resource: "mine/1", Ref: "a", Details: by("ada"), Held: 10 * time.Minute, Within: time.Second})
		k.note(30*time.Minute, history.Event{Kind: history.Seen, Resource: "mine/1", Ref: "b", Details: by("eve"), Held: time.Minute, Within: 20 * time.Second})
		k.note(20*time.Minute, history.Event{
			Kind: history.Forced, Resource: "mine/1", Ref: "b", Details: by("eve"), Held: 11 * time.Minute, Caller: "ops", Reason: "<its> host is gone",
		})
		k.note(10*time.Minute, history.Event{Kind: history.Expired, Resource: "others/1", Ref: "c", Details: by("mallory"), Held: time.Minute})
		k.note(5*time.Minute, history.Event{Kind: history.Granted, Resource: "mine/1", Ref: "d", Details: by("bob")})
		k.note(3*time.Hour, history.Event{Kind: history.Expired, Resource: "mine/ttl", Ref: "e", Details: by("bob"), Held: 29990 * time.Millisecond})
		k.note(3*time.Hour, history.Event{Kind: history.Gone, Resource: "mine/gone", Ref: "f", Details: by("bob"), Held: time.Minute})
		s.shows("/history", "ended without a release bob on web1 ref e 30 s", "gone released, perhaps by force, or ended just then")
		s.shows("/history", "20 min ago mine/1 forced released by force by ops: “<its> host is gone” eve on web1 ref b 11 min", "seen held exclusively (up to 20 s earlier) eve on web1 ref b 40 min ago",
			"released ada on web1 ref a 10 min", "granted exclusively ada on web1 ref a 2 h ago", "!mallory", "!others/1")
		s.shows("/history?name=mine%2F1", "History of mine/1", "held now", "!mine/old")
		s.shows("/resource?name=mine%2F1", "What happened before", "40 min ago", "!Usually")
		s.shows("/", "Lost in the last hour", "1 hold has ended without a release as far as is known, or by force.", "mine/1", "!others/1", "!mine/old")
		if w := s.get("/history?name=others%2F1"); w.Code != http.StatusForbidden || strings.Contains(w.Body.String(), "mallory") {
			s.Errorf("status %d: %s", w.Code, w.Body)
		}
		for _, path := range []string{"/history?before=x", "/history?before=0", "/history?name="} {
			if w := s.get(path); w.Code != http.StatusBadRequest {
				s.Errorf("%s: status %d", path, w.Code)
			}
		}
		page := s.get("/history?name=mine%2F1").Body.String()
		for class, n := range map[string]int{`class="bar held"`: 1, `class="bar loss"`: 1, `class="bar now"`: 1, `class="end"`: 1} {
			if got := strings.Count(page, class); got != n {
				s.Errorf("%d of %s, want %d", got, class, n)
			}
		}
	})
}

// What the caller may not see is passed over, and no page is without an end.
func TestLongHistory(t *testing.T) {
	withHistory(t, caller{look: "mine/"}, func(s *scene, k *kept) {
		for i := range 1000 {
			k.note(time.Hour-time.Duration(i)*time.Second, history.Event{Kind: history.Released, Resource: fmt.Sprint("mine/", i), Ref: fmt.Sprint(i), Held: time.Second})
		}
		s.shows("/history", "mine/999", "mine/800", "!mine/799", "Older")
		s.shows("/history?before=801", "mine/799", "mine/600", "!mine/800", "!mine/599", "Older")
		s.shows("/history?before=3", "mine/1", "mine/0", "!Older")
		for i := range 5000 {
			k.note(time.Minute, history.Event{Kind: history.Released, Resource: fmt.Sprint("others/", i), Ref: fmt.Sprint("o", i), Held: time.Second})
		}
		s.shows("/history", "Nothing of this time is yours to see.", "Older", "!others")
		if page := s.get("/history").Body.String(); !strings.Contains(page, "history?before=4001") {
			s.Error(page)
		}
	})
}

// A time line that does not reach back to where the history begins says so.
func TestCutTimeline(t *testing.T) {
	const cut = "The time line begins where the last 200 events do: there were others before."
	withHistory(t, access.Onlooker(), func(s *scene, k *kept) {
		for i := range 300 {
			k.note(10*time.Hour-time.Duration(i)*time.Minute, history.Event{Kind: history.Released, Resource: "r", Ref: fmt.Sprint(i), Held: time.Second})
			if i == 199 {
				s.shows("/resource?name=r", "held now", "!The time line begins")
			}
		}
		s.shows("/resource?name=r", "held now", cut)
		s.shows("/history?name=r", "held now", cut)
		s.shows("/history?name=r&before=101", "released", "!held now", "!The time line begins")
	})
}

func TestUsual(t *testing.T) {
	withHistory(t, access.Onlooker(), func(s *scene, k *kept) {
		s.hold(driver.AcquireRequest{Resource: "r", TTL: time.Hour})
		for i := range 20 {
			if i == 4 {
				s.shows("/resource?name=r", "!Usually") // of few holds nothing is usual
			}
			k.note(time.Hour, history.Event{Kind: history.Released, Resource: "r", Ref: fmt.Sprint(i), Held: time.Duration(i+1) * time.Second})
		}
		time.Sleep(time.Second) // the store rests
		s.shows("/resource?name=r", "It has been held for 1 s now. Usually that is 10 s: half of the last 20 holds took that at most, and 95 of 100 19 s.", "!longer than usual")
		time.Sleep(time.Minute)
		s.shows("/resource?name=r", "longer than usual It has been held for 1 min 1 s now.")
	})
}

// A history that fails or hangs keeps no page from showing the locks.
func TestHistoryFails(t *testing.T) {
	withHistory(t, access.Onlooker(), func(s *scene, k *kept) {
		s.hold(driver.AcquireRequest{Resource: "r", TTL: time.Hour})
		k.err = errors.New("disk /secret")
		s.shows("/history", "The history cannot be read.", "!secret")
		s.shows("/resource?name=r", "The history cannot be read.", "Ends in", "!secret")
		s.shows("/", "The history cannot be read.", "1 hold")
		k.hangs = true
		began := time.Now()
		s.shows("/", "The history cannot be read.", "1 hold")
		if took := time.Since(began); took > 2*time.Second {
			s.Errorf("the page took %v", took)
		}
	})
}

func TestHostileHistory(t *testing.T) {
	names := append([]string{strings.Repeat("W", 1024)}, hostile...)
	withHistory(t, access.Onlooker(), func(s *scene, k *kept) {
		for _, name := range names {
			for _, kind := range history.Kinds() {
				k.note(time.Minute, history.Event{
					Kind: kind, Resource: name, Ref: string(kind), Details: driver.Details{Owner: name, Host: name, Comment: name}, Caller: name, Reason: name, Held: time.Second,
				})
			}
		}
		paths := []string{"/", "/history"}
		for _, name := range names {
			paths = append(paths, "/history?"+url.Values{"name": {name}}.Encode(), "/resource?"+url.Values{"name": {name}}.Encode())
		}
		s.harmless(paths)
	})
}
