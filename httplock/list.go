package httplock

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/url"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock/wire"
)

// List implements driver.Store. It reads the whole list before it yields the first hold,
// so an incomplete list yields nothing but an error. The part of a list beyond 4 MiB is
// kept in a temporary file.
func (s *Store) List(ctx context.Context, f driver.Filter) iter.Seq2[driver.Status, error] {
	return listed(ctx, s, wire.HoldsPath, f, func(h wire.Hold) (driver.Status, bool) {
		status := s.own.status(h)
		return status, soundHold(status)
	})
}

// Waiters implements driver.Queue, as List does.
func (s *Store) Waiters(ctx context.Context, f driver.Filter) iter.Seq2[driver.Place, error] {
	return listed(ctx, s, wire.WaitersPath, f, func(w wire.Waiter) (driver.Place, bool) {
		place := w.Driver()
		return place, soundPlace(place)
	})
}

// listed yields the entries of a stream. of converts an entry, and reports whether it is
// valid.
func listed[W, D any](ctx context.Context, s *Store, path string, f driver.Filter, of func(W) (D, bool)) iter.Seq2[D, error] {
	return func(yield func(D, error) bool) {
		var none D
		lines := &spool{}
		defer lines.close()
		if err := s.fetch(ctx, path, f, lines); err != nil {
			yield(none, err)
			return
		}
		for line, err := range lines.all() {
			if err == nil {
				err = ctx.Err()
			}
			var entry D
			if err == nil {
				entry, err = decode(s, line, of)
			}
			if !yield(entry, err) || err != nil {
				return
			}
		}
	}
}

func decode[W, D any](s *Store, line []byte, of func(W) (D, bool)) (entry D, err error) {
	var w W
	if err := json.Unmarshal(line, &w); err != nil {
		return entry, s.unexpected("an entry of a list: %v", err)
	}
	entry, ok := of(w)
	if !ok {
		var none D
		return none, s.unexpected("an entry of a list that is not one")
	}
	return entry, nil
}

// fetch reads a list into lines. It returns nil only if the list is complete.
func (s *Store) fetch(ctx context.Context, path string, f driver.Filter, lines *spool) error {
	m := message{path: path, query: query(f), accept: wire.NDJSON}
	res, err := s.send(ctx, s.calls, m, patience(ctx))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if err := s.understand(res, m, nil); err != nil {
		return s.ended(ctx, err)
	}
	last, err := lines.fill(res.Body)
	if err != nil {
		return s.ended(ctx, fmt.Errorf("%s: the list was cut off: %v", s.target.name, err))
	}
	return s.complete(last, lines.count)
}

// complete reads the last line of a stream with count entries.
func (s *Store) complete(last []byte, count int) error {
	var end wire.End
	d := json.NewDecoder(bytes.NewReader(last))
	d.DisallowUnknownFields() // an entry is not an end
	err := d.Decode(&end)
	switch {
	case err != nil || (end.End == nil) == (end.Error == nil):
		return s.unexpected("the list has no end, so it was cut off after %d entries", count)
	case end.Error != nil:
		return s.meaning(end.Error.Kind(), *end.Error, driver.HoldID{})
	case end.End.Count != count:
		return s.unexpected("the list has %d entries and says %d", count, end.End.Count)
	}
	return nil
}

// query returns the filter for the API. Times of the store's clock are exact. Durations
// are whole milliseconds, rounded so that a little more may be chosen.
func query(f driver.Filter) url.Values {
	q := url.Values{}
	set := func(name, value string) {
		if value != "" {
			q.Set(name, value)
		}
	}
	moment := func(name string, t time.Time) {
		if !t.IsZero() {
			q.Set(name, t.UTC().Format(time.RFC3339Nano))
		}
	}
	left := func(name string, d time.Duration, of func(time.Duration) wire.Millis) {
		if d > 0 {
			// Every hold with more time left than the longest TTL has no end.
			q.Set(name, strconv.FormatInt(int64(of(min(d, driver.MaxTTL+time.Millisecond))), 10))
		}
	}
	set("resource", f.Resource)
	set("lockId", f.LockID)
	set("owner", f.Owner)
	moment("createdBefore", f.CreatedBefore)
	moment("createdAfter", f.CreatedAfter)
	left("ttlBelowMs", f.LeftBelow, wire.MillisUp)
	left("ttlAtLeastMs", f.LeftAtLeast, wire.MillisOf)
	if f.Expired {
		q.Set("expired", "true")
	}
	return q
}
