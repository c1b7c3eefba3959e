package httplock

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/url"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock/wire"
)

// maxLine and maxList are the largest numbers of bytes in an entry of a list and in all of
// them: the longest entry, with names of control characters, has some 40 KB.
const (
	maxLine = 256 << 10
	maxList = 1 << 30
)

// List implements driver.Store. It reads the whole list before it yields the first hold,
// so an incomplete list yields nothing but an error.
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
		m := message{path: path, query: query(f), accept: wire.NDJSON}
		var entries []D
		res, err := s.send(ctx, s.calls, m, patience(ctx))
		if err == nil {
			defer res.Body.Close()
			if err = s.understand(res, m, nil); err == nil {
				entries, err = readList(s, res.Body, of)
			}
			err = s.ended(ctx, err)
		}
		for _, entry := range entries {
			if err = ctx.Err(); err != nil {
				break
			}
			if !yield(entry, nil) {
				return
			}
		}
		if err != nil {
			var none D
			yield(none, err)
		}
	}
}

// readList reads a stream. Without an error, it is complete.
func readList[W, D any](s *Store, from io.Reader, of func(W) (D, bool)) (entries []D, err error) {
	lines := newLines(io.LimitReader(from, maxList), maxLine)
	var last []byte
	for lines.Scan() {
		if len(last) > 0 {
			var w W
			if err := json.Unmarshal(last, &w); err != nil {
				return nil, s.unexpected("an entry of a list: %v", err)
			}
			entry, ok := of(w)
			if !ok {
				return nil, s.unexpected("an entry of a list that is not one")
			}
			entries = append(entries, entry)
		}
		last = append(last[:0], lines.Bytes()...)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: the list was cut off: %v", s.target.name, err)
	}
	var end wire.End
	d := json.NewDecoder(bytes.NewReader(last))
	d.DisallowUnknownFields() // an entry is not an end
	err = d.Decode(&end)
	switch {
	case err != nil || (end.End == nil) == (end.Error == nil):
		return nil, s.unexpected("the list has no end, so it was cut off after %d entries", len(entries))
	case end.Error != nil:
		return nil, s.meaning(end.Error.Kind(), *end.Error, driver.HoldRef{})
	case end.End.Count != len(entries):
		return nil, s.unexpected("the list has %d entries and says %d", len(entries), end.End.Count)
	}
	return entries, nil
}

// newLines returns a scanner of lines of up to longest bytes.
func newLines(from io.Reader, longest int) *bufio.Scanner {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, longest)
	return lines
}

// query returns the filter for the API. Times of the store's clock are exact. Durations
// are whole milliseconds, rounded so that a little more may be chosen.
func query(f driver.Filter) url.Values {
	moment := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.UTC().Format(time.RFC3339Nano)
	}
	left := func(d time.Duration, of func(time.Duration) wire.Millis) string {
		if d <= 0 {
			return ""
		}
		// Every hold with more time left than the longest TTL has no end.
		return strconv.FormatInt(int64(of(min(d, driver.MaxTTL+time.Millisecond))), 10)
	}
	q := url.Values{}
	for name, value := range map[string]string{
		"resource": f.Resource, "lockId": f.LockID, "owner": f.Owner,
		"createdBefore": moment(f.CreatedBefore), "createdAfter": moment(f.CreatedAfter),
		"ttlBelowMs": left(f.LeftBelow, wire.MillisUp), "ttlAtLeastMs": left(f.LeftAtLeast, wire.MillisOf),
	} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if f.Expired {
		q.Set("expired", "true")
	}
	return q
}
