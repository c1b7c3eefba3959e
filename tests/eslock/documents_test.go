package eslock_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/eslock"
	"github.com/holdfast-go/holdfast/tests/ask"
)

// A document that cannot be understood is a named error, whoever asks for it, and
// stays as it is.
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
			"owner of a hold":      hold("owner", 5),
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
					t.Errorf("it was %v and is %v", before, after)
				}
			})
		}
	})
}

// Names that are too long for an ID are hashed, and whoever has the name of a hash
// is told.
func TestLongNames(t *testing.T) {
	onBoth(t, func(t *testing.T, n node) {
		index := n.Index(t)
		s := newStore(t, n, &eslock.Options{Index: index})
		fits, long := strings.Repeat("ü", 256), strings.Repeat("ü", 257)
		hash := fmt.Sprintf("sha256-%x", sha256.Sum256([]byte(long)))
		ask.Granted(t, s, ask.Request(fits, "a"))
		ref := ask.Granted(t, s, ask.Request(long, "a"))
		_ = ask.Refused(t, s, ask.Request(long, "b"))
		if got := n.Source(t, index, hash)["holdfast"].(object)["resource"]; got != long {
			t.Errorf("resource %v", got)
		}
		found := map[string]bool{}
		for status, err := range s.List(t.Context(), driver.Filter{LockID: "a"}) {
			if err != nil {
				t.Fatal(err)
			}
			found[status.Resource] = true
		}
		if !found[fits] || !found[long] || len(found) != 2 {
			t.Errorf("listed %v", found)
		}
		if _, err := s.Acquire(t.Context(), ask.Request(hash, "a")); !errors.Is(err, driver.ErrDamaged) || !strings.Contains(err.Error(), "another resource") {
			t.Errorf("the name of the hash: %v", err)
		}
		ask.Released(t, s, ref, 0)
		other := strings.Repeat("y", 600)
		hash = fmt.Sprintf("sha256-%x", sha256.Sum256([]byte(other)))
		ask.Granted(t, s, ask.Request(hash, "a"))
		if _, err := s.Acquire(t.Context(), ask.Request(other, "a")); !errors.Is(err, driver.ErrDamaged) {
			t.Errorf("the hash of the name: %v", err)
		}
	})
}
