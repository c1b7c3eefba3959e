package dashboard_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/server/access"
	"github.com/holdfast-go/holdfast/server/dashboard"
	"github.com/holdfast-go/holdfast/server/history"
)

// kept is a storage that a test fills, the oldest hold first.
type kept struct {
	holds []history.Hold
	saved history.Saved
	err   error
	full  atomic.Pointer[error] // of writes
	hangs bool
}

func (k *kept) Load(context.Context) (history.Saved, error) { return k.saved, nil }
func (k *kept) Write(context.Context, []history.Hold, *history.Looks) (history.Bounds, error) {
	if err := k.full.Load(); err != nil {
		return k.saved.Bounds, *err
	}
	return k.saved.Bounds, nil
}
func (k *kept) Close() error { return nil }

func (k *kept) Holds(ctx context.Context, q history.Query) (holds []history.Hold, err error) {
	if k.hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	for _, h := range slices.Backward(k.holds) {
		if len(holds) < q.Limit && (q.Resource == "" || h.Resource == q.Resource) && (q.Before == 0 || h.Number < q.Before) &&
			(h.How == "" || !h.Ended.By.Before(q.Since)) && (!q.Losses || h.How == history.Forced || h.How == history.Lost) {
			holds = append(holds, h)
		}
	}
	return holds, k.err
}

// held adds a hold that began that long ago. It was held for that long if it has ended.
func (k *kept) held(ago, long time.Duration, h history.Hold) {
	h.Number, h.Began = int64(len(k.holds)+1), exactly(ago)
	if h.How != "" {
		h.Ended = exactly(ago - long)
	}
	k.holds = append(k.holds, h)
}

func exactly(ago time.Duration) history.Moment { return between(ago, ago) }

func between(from, to time.Duration) history.Moment {
	return history.Moment{After: time.Now().Add(-from), By: time.Now().Add(-to)}
}

// withHistory runs the test, with a history that the test fills.
func withHistory(t *testing.T, who access.Caller, test func(*scene, *kept)) {
	t.Helper()
	k := new(kept)
	var log *history.Log
	with(t, func() dashboard.Options {
		k.saved.Since = time.Now().Add(-72 * time.Hour)
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

func TestGaps(t *testing.T) {
	var log *history.Log
	with(t, func() dashboard.Options {
		now := time.Now()
		k := &kept{saved: history.Saved{Bounds: history.Bounds{Since: now.Add(-72 * time.Hour), Removed: now.Add(-time.Hour)}, Looks: history.Looks{Gaps: []history.Gap{
			{From: now.Add(-2 * time.Hour), To: now.Add(-time.Hour)},
			{From: now.Add(-100 * time.Hour), To: now.Add(-90 * time.Hour)},
		}}}}
		var err error
		if log, err = history.New(context.Background(), k, nil); err != nil {
			t.Fatal(err)
		}
		return dashboard.Options{History: log}
	}, func(s *scene) {
		defer log.Close()
		s.shows("/history?name=r", "Not looked between 2 h ago and 1 h ago.", "Its file is full: some of the oldest holds are missing.", "!100 h", "!4 d")
	})
}

func TestNoHistory(t *testing.T) {
	as(t, access.Onlooker(), func(s *scene) {
		for _, path := range []string{"/history", "/history?name=r", "/resource?name=r"} {
			s.shows(path, "No history is kept, which would show who had which lock", "holdfast serve --history FILE keeps one.")
		}
		s.shows("/", "!Lost in the last hour", "!No history")
	})
}

func TestHistory(t *testing.T) {
	withHistory(t, caller{look: "mine/"}, func(s *scene, k *kept) {
		s.shows("/history", "No hold is known that you may look at, as far back as this goes.", "This is what server-1 has seen in the last 3 d. Only what passes through this server is seen.")
		k.held(3*time.Hour, time.Hour, history.Hold{How: history.Lost, Resource: "mine/old", Ref: "0"})
		k.held(50*time.Minute, 10*time.Minute, history.Hold{How: history.Released, Resource: "mine/1", Ref: "a", Details: by("ada")})
		k.held(31*time.Minute, 11*time.Minute, history.Hold{How: history.Forced, Resource: "mine/1", Ref: "b", Details: by("eve"), By: "ops", Reason: "<its> host is gone"})
		k.held(11*time.Minute, time.Minute, history.Hold{How: history.Lost, Resource: "others/1", Ref: "c", Details: by("mallory")})
		k.held(12*time.Minute, time.Minute, history.Hold{How: history.Lost, Resource: "mine/lost", Ref: "9", Details: by("eve")})
		k.held(3*time.Hour, 29990*time.Millisecond, history.Hold{How: history.Lost, Resource: "mine/ttl", Ref: "e", Details: by("bob")})
		k.holds = append(k.holds, history.Hold{
			Number: 6, Resource: "mine/looked", Ref: "f", Details: by("bob"), Began: history.Moment{By: time.Now().Add(-time.Hour)}, Ended: between(20*time.Minute, 15*time.Minute), How: history.Unknown,
		})
		k.held(5*time.Minute, 0, history.Hold{Resource: "mine/1", Ref: "d", Details: by("bob")})
		s.shows("/history", "mine/1 bob on web1 d 5 min ago held still",
			"mine/looked bob on web1 f 1 h ago or before 20 min to 15 min ago 45 min unknown released, perhaps by force, or its time was over",
			"bob on web1 e 3 h ago 2 h 59 min ago 30 s lost ended without a release",
			"mine/1 eve on web1 b 31 min ago 20 min ago 11 min forced released by force by ops: “<its> host is gone”",
			"ada on web1 a 50 min ago 40 min ago 10 min released", "!mallory", "!others/1")
		s.shows("/history?name=mine%2F1", "History of mine/1", "held still", "!mine/old")
		s.shows("/resource?name=mine%2F1", "Who held it before", "40 min ago", "!usually")
		s.shows("/", "Lost in the last hour", "They ended without a release, as far as is known.", "mine/lost", "!mine/1", "!others/1", "!mine/old")
		if w := s.get("/history?name=others%2F1"); w.Code != http.StatusForbidden || strings.Contains(w.Body.String(), "mallory") {
			s.Errorf("status %d: %s", w.Code, w.Body)
		}
		for _, path := range []string{"/history?before=x", "/history?before=0", "/history?name="} {
			if w := s.get(path); w.Code != http.StatusBadRequest {
				s.Errorf("%s: status %d", path, w.Code)
			}
		}
	})
}

// What the caller may not see is passed over, and no page is without an end.
func TestLongHistory(t *testing.T) {
	withHistory(t, caller{look: "mine/"}, func(s *scene, k *kept) {
		for i := range 1000 {
			k.held(time.Hour-time.Duration(i)*time.Second, time.Second, history.Hold{How: history.Released, Resource: fmt.Sprint("mine/", i), Ref: fmt.Sprint(i)})
		}
		s.shows("/history", "mine/999", "mine/800", "!mine/799", "Older")
		s.shows("/history?before=801", "mine/799", "mine/600", "!mine/800", "!mine/599", "Older")
		s.shows("/history?before=3", "mine/1", "mine/0", "!Older")
		for i := range 5000 {
			k.held(time.Minute, time.Second, history.Hold{How: history.Released, Resource: fmt.Sprint("others/", i), Ref: fmt.Sprint("o", i)})
		}
		s.shows("/history", "No hold is known that you may look at", "Older", "!others")
		if page := s.get("/history").Body.String(); !strings.Contains(page, "history?before=4001") {
			s.Error(page)
		}
		for i := range 30 {
			k.held(time.Minute, time.Second, history.Hold{How: history.Released, Resource: "mine/1", Ref: fmt.Sprint("m", i)})
		}
		s.shows("/resource?name=mine%2F1", "m29", "m20", "!m19", "All who held it")
		s.shows("/history?name=mine%2F1&before=6010", "m8", "!m9", "!Older")
	})
}

func TestUsual(t *testing.T) {
	withHistory(t, access.Onlooker(), func(s *scene, k *kept) {
		s.hold(driver.AcquireRequest{Resource: "r", TTL: time.Hour})
		for i := range 20 {
			if i == 4 {
				s.shows("/resource?name=r", "!usually") // of few holds nothing is usual
			}
			k.held(time.Hour, time.Duration(i+1)*time.Second, history.Hold{How: history.Released, Resource: "r", Ref: fmt.Sprint(i)})
		}
		time.Sleep(time.Second) // the store rests
		s.shows("/resource?name=r", "It is usually held for 10 s: 95 of 100 of the last 20 holds took 19 s at most.")
	})
}

// Each page says that the history is not written.
func TestHistoryIsNotWritten(t *testing.T) {
	withHistory(t, access.Onlooker(), func(s *scene, k *kept) {
		full := errors.New("/secret: no space left on device")
		k.full.Store(&full)
		s.shows("/", "!The history is not written")
		time.Sleep(15 * time.Second)
		for _, path := range []string{"/", "/history", "/resource?name=r"} {
			s.says(path, "The history is not written: the server's log says why. Locks go on.")
			s.shows(path, "!secret")
		}
	})
}

// A history that fails or hangs keeps no page from showing the locks.
func TestHistoryFails(t *testing.T) {
	withHistory(t, access.Onlooker(), func(s *scene, k *kept) {
		s.hold(driver.AcquireRequest{Resource: "r", TTL: time.Hour})
		k.err = errors.New("disk /secret")
		s.shows("/history", "The history cannot be read.", "!secret")
		s.shows("/resource?name=r", "The history cannot be read.", "Time left", "!secret")
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
			for _, how := range []history.How{"", history.Released, history.Forced, history.Lost, history.Unknown} {
				k.held(time.Minute, time.Second, history.Hold{
					How: how, Resource: name, Ref: "a", Details: driver.Details{Owner: name, Host: name, Comment: name}, By: name, Reason: name,
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
