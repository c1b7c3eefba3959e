package eslock_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/eslock"
	"github.com/holdfast-go/holdfast/lab/ask"
)

// A damaged document is a named error for all requests, and does not change.
func TestDamage(t *testing.T) {
	onBoth(t, func(t *testing.T, n node) {
		index := n.Index(t)
		s := newStore(t, n, &eslock.Options{Index: index})
		hold := func(key string, value any) func(doc object) {
			return func(doc object) { doc["holdfast"].(object)["holds"].([]any)[0].(object)[key] = value }
		}
		ours := func(key string, value any) func(doc object) {
			return func(doc object) { doc["holdfast"].(object)[key] = value }
		}
		place := func(key string, value any) func(doc object) {
			p := object{"placeId": strings.Repeat("a", 24), "lockId": "b", "mode": "exclusive", "since": 1, "asked": 1, "until": 1, key: value}
			return ours("places", []any{p})
		}
		i := 0
		for name, damage := range map[string]func(doc object){
			"no owner":            func(doc object) { delete(doc, "owner") },
			"owner is a number":   func(doc object) { doc["owner"] = 7 },
			"owner is empty":      func(doc object) { doc["owner"] = "" },
			"no expires":          func(doc object) { delete(doc, "expires") },
			"expires is null":     func(doc object) { doc["expires"] = nil },
			"expires is a number": func(doc object) { doc["expires"] = 4102444800000 },
			"expires has no zone": func(doc object) { doc["expires"] = "2099-01-01T00:00:00" },
			"holdfast is an array": func(doc object) {
				doc["holdfast"] = []any{doc["holdfast"]}
			},
			"token is a text":      ours("token", "1"),
			"token is negative":    ours("token", -1),
			"token is a fraction":  ours("token", 1.5),
			"token is too large":   ours("token", 1<<60),
			"no token":             ours("token", nil),
			"no holds":             ours("holds", nil),
			"the name of another":  ours("resource", "another"),
			"the name is a number": ours("resource", 5),
			"lock ID is a number":  hold("lockId", 5),
			"lock ID is empty":     hold("lockId", ""),
			"hold ID is a number":  hold("holdId", 5),
			"hold without hold ID": hold("holdId", nil),
			"unknown mode":         hold("mode", "upgradeable"),
			"no mode":              hold("mode", nil),
			"token of a hold is 0": hold("token", 0),
			"end is a text":        hold("end", "soon"),
			"end is negative":      hold("end", -1),
			"end is beyond all":    hold("end", int64(1)<<60),
			"delay is negative":    hold("delay", -1),
			"delay is missing":     hold("delay", nil),
			"released is a text":   hold("released", "yes"),
			"created is a text":    hold("created", "once"),
			"hold ID is not hex":   hold("holdId", strings.Repeat("x", 24)),
			"hold ID of zeros":     hold("holdId", strings.Repeat("0", 24)),
			"owner of a hold":      hold("owner", 5),
			"queue is a text":      ours("places", "none"),
			"place is a text":      ours("places", []any{"none"}),
			"no place ID":          place("placeId", nil),
			"place ID is not hex":  place("placeId", strings.Repeat("x", 24)),
			"place ID of zeros":    place("placeId", strings.Repeat("0", 24)),
			"lock ID of a place":   place("lockId", ""),
			"mode of a place":      place("mode", "upgradeable"),
			"limit of a place":     place("limit", 3),
			"fair is a text":       place("fair", "yes"),
			"since is a text":      place("since", "once"),
			"asked is missing":     place("asked", nil),
			"until is a text":      place("until", "soon"),
			"until is beyond all":  place("until", int64(1)<<60),
			"host of a place":      place("host", 5),
		} {
			i++
			r := fmt.Sprint("doc", i)
			t.Run(name, func(t *testing.T) {
				ref := ask.Granted(t, s, ask.Request(r, "a"))
				doc := n.Source(t, index, r)
				damage(doc)
				n.Must(t, http.MethodPut, "/"+index+"/_doc/"+r, doc)
				before := n.Source(t, index, r)
				ask.Damaged(t, s, ref)
				if after := n.Source(t, index, r); !reflect.DeepEqual(before, after) {
					t.Errorf("the document was %v and is %v", before, after)
				}
			})
		}
	})
}

// Names that are too long for an ID are hashed, and so are names that look like a hash:
// no two names share a lock.
func TestLongNames(t *testing.T) {
	onBoth(t, func(t *testing.T, n node) {
		index := n.Index(t)
		s := newStore(t, n, &eslock.Options{Index: index})
		fits, long := strings.Repeat("ü", 256), strings.Repeat("ü", 257)
		hash := fmt.Sprintf("sha256-%x", sha256.Sum256([]byte(long)))
		names := []string{fits, long, hash, fmt.Sprintf("sha256-%x", sha256.Sum256([]byte(hash))), "sha256-short"}
		for _, name := range names {
			ask.Granted(t, s, ask.Request(name, "a"))
			_ = ask.Refused(t, s, ask.Request(name, "b"))
		}
		if got := n.Source(t, index, hash)["holdfast"].(object)["resource"]; got != long {
			t.Errorf("resource %v", got)
		}
		n.Source(t, index, fits)
		n.Source(t, index, "sha256-short")
		var found []string
		for status, err := range s.List(t.Context(), driver.Filter{LockID: "a"}) {
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, status.Resource)
		}
		slices.Sort(found)
		if slices.Sort(names); !slices.Equal(found, names) {
			t.Errorf("listed %q", found)
		}
	})
}

// The first attempt may have been written to one copy alone, so that it was not answered.
// A repeat that finds it is answered by another write, which waits for the copies.
// Refusals and losses write nothing.
func TestRepeatsAreWritten(t *testing.T) {
	onBoth(t, func(t *testing.T, n node) {
		index := n.Index(t)
		s := newStore(t, n, &eslock.Options{Index: index})
		for _, resource := range []string{"r", "a/b"} { // alone and in a bulk
			version := func() (v float64) {
				t.Helper()
				reply := n.Must(t, http.MethodGet, "/"+index+"/_doc/"+url.PathEscape(resource), nil)
				return reply["_version"].(float64)
			}
			writes := func(what string, want float64, do func()) {
				t.Helper()
				before := version()
				do()
				if got := version() - before; got != want {
					t.Errorf("%s of %q: %v writes, want %v", what, resource, got, want)
				}
			}
			q := ask.Request(resource, "a")
			q.TTL = time.Hour
			ref := ask.Granted(t, s, q)
			writes("a repeat", 1, func() {
				g, err := s.Acquire(t.Context(), q)
				if err != nil || g.Token != ref.Token || g.Left > time.Hour || g.Left < 59*time.Minute {
					t.Errorf("granted %+v, %v; the first token was %d", g, err, ref.Token)
				}
			})
			writes("a refusal", 0, func() { _ = ask.Refused(t, s, ask.Request(resource, "b")) })
			writes("a renewal of what is lost", 0, func() {
				ask.Lost(t, s, driver.HoldRef{Resource: resource, LockID: "b", HoldID: driver.NewHoldID(), Token: 1})
			})
			ask.Released(t, s, ref, 0)
			writes("a release again", 1, func() {
				if ask.Released(t, s, ref, 0) {
					t.Error("found")
				}
			})
			writes("a release by force of nothing", 0, func() {
				if ask.Released(t, s, driver.HoldRef{Resource: resource, LockID: "a"}, 0) {
					t.Error("found")
				}
			})
		}
	})
}

// The answer to a request about one hold has only that hold: otherwise renewals of many
// holds of one resource would have long answers.
func TestAnswersAreShort(t *testing.T) {
	onBoth(t, func(t *testing.T, n node) {
		const holds = 40
		measured := &measured{node: n}
		s := newStore(t, measured, &eslock.Options{Index: n.Index(t)})
		var renewals []driver.RenewRequest
		var releases []driver.ReleaseRequest
		for i := range holds {
			q := ask.Shared(ask.Request("r", fmt.Sprint("id ", i)), 0)
			q.Details.Comment = strings.Repeat("c", 1024)
			measured.longest = 0
			ref := ask.Granted(t, s, q)
			if measured.longest > 1024 {
				t.Fatalf("the answer to hold %d has %d bytes", i, measured.longest)
			}
			renewals = append(renewals, driver.RenewRequest{HoldRef: ref, TTL: time.Hour})
			releases = append(releases, driver.ReleaseRequest{HoldRef: ref})
		}
		measured.longest = 0
		if rs, err := s.Renew(t.Context(), renewals); err != nil || rs[0].Err != nil || rs[holds-1].Left < 59*time.Minute {
			t.Errorf("renewed %+v, %v", rs, err)
		}
		if rs, err := s.Release(t.Context(), releases); err != nil || !rs[0].Found || !rs[holds-1].Found {
			t.Errorf("released %+v, %v", rs, err)
		}
		if measured.longest > holds*1024 {
			t.Errorf("an answer of %d bytes to %d requests", measured.longest, holds)
		}
	})
}

// measured is a node that records the length of its longest answer.
type measured struct {
	node
	longest int64
}

func (m *measured) Perform(req *http.Request) (*http.Response, error) {
	res, err := m.node.Perform(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	m.longest = max(m.longest, int64(len(text)))
	res.Body = io.NopCloser(bytes.NewReader(text))
	return res, err
}
