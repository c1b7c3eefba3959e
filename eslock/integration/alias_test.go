package eslock_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/eslock"
	"github.com/holdfast-go/holdfast/lab/ask"
	"github.com/holdfast-go/holdfast/lab/faults"
)

// alias creates an alias for a new index, and returns both.
func (n node) alias(t *testing.T, options object) (alias, index string) {
	t.Helper()
	alias, index = n.Index(t), n.Index(t)+"-000001"
	n.delete(t, index)
	n.Must(t, http.MethodPut, "/"+index, object{"aliases": object{alias: options}})
	return alias, index
}

// delete deletes an index at the end of the test.
func (n node) delete(t *testing.T, index string) {
	t.Cleanup(func() {
		n.Ask(context.WithoutCancel(t.Context()), t, http.MethodDelete, "/"+index+"?ignore_unavailable=true", nil)
	})
}

func (n node) aliases(t *testing.T, actions ...object) {
	t.Helper()
	n.Must(t, http.MethodPost, "/_aliases", object{"actions": actions})
}

// Rolling over an alias, as index lifecycle management does, does not move the locks:
// open stores continue with the former index, and others get an error.
func TestRollover(t *testing.T) {
	onBoth(t, func(t *testing.T, n node) {
		alias, index := n.alias(t, object{"is_write_index": true})
		opts := &eslock.Options{Index: alias, Replicas: -1}
		a, b := newStore(t, n, opts), newStore(t, n, opts)
		ref := ask.Granted(t, a, ask.Request("r", "a"))
		next := strings.TrimSuffix(index, "1") + "2"
		n.delete(t, next)
		n.Must(t, http.MethodPost, "/"+alias+"/_rollover", nil)
		_ = ask.Refused(t, b, ask.Request("r", "b"))
		refusesToOpen(t, n, opts, index)
		for status, err := range b.List(t.Context(), driver.Filter{}) {
			if err != nil || status.Ref() != ref {
				t.Errorf("found %+v, %v; want only the hold %+v", status, err, ref)
			}
		}
		ask.Released(t, a, ref, 0)
		ask.Granted(t, b, ask.Request("r", "b"))
		// The documented remedy, when nothing is locked there.
		n.aliases(t, object{"remove": object{"index": index, "alias": alias + "-holdfast"}}, object{"remove": object{"index": index, "alias": alias}})
		newStore(t, n, opts)
	})
}

// The same is true if the alias moves to another index.
func TestAliasSwapped(t *testing.T) {
	onBoth(t, func(t *testing.T, n node) {
		alias, index := n.alias(t, object{})
		opts := &eslock.Options{Index: alias, Replicas: -1}
		a, b := newStore(t, n, opts), newStore(t, n, opts)
		ref := ask.Granted(t, a, ask.Request("r", "a"))
		other := n.Index(t)
		n.Must(t, http.MethodPut, "/"+other, nil)
		n.aliases(t, object{"remove": object{"index": index, "alias": alias}}, object{"add": object{"index": other, "alias": alias}})
		_ = ask.Refused(t, b, ask.Request("r", "b"))
		refusesToOpen(t, n, opts, index)
		ask.Released(t, a, ref, 0)
	})
}

func refusesToOpen(t *testing.T, n node, opts *eslock.Options, index string) {
	t.Helper()
	err := eslock.New(n, opts).Init(t.Context())
	if !errors.Is(err, driver.ErrUnusable) || !strings.Contains(err.Error(), index) || !strings.Contains(err.Error(), "remove its alias") {
		t.Errorf("a newly opened store: error %v", err)
	}
}

// If Holdfast's own alias moves to another index, answers from there do not count as
// granted, held or lost.
func TestOwnAliasMoved(t *testing.T) {
	onBoth(t, func(t *testing.T, n node) {
		opts := &eslock.Options{Index: n.Index(t), Replicas: -1}
		s := newStore(t, n, opts)
		ref := ask.Granted(t, s, ask.Request("r", "a"))
		other := &eslock.Options{Index: n.Index(t), Replicas: -1}
		ask.Granted(t, newStore(t, n, other), ask.Request("r", "another"))
		empty := n.Index(t)
		newStore(t, n, &eslock.Options{Index: empty, Replicas: -1})
		move := func(from, to string) {
			own := opts.Index + "-holdfast"
			n.aliases(t, object{"remove": object{"index": from, "alias": own}}, object{"add": object{"index": to, "alias": own}})
		}
		move(opts.Index, other.Index)
		for what, err := range tryAll(t, s, ref) {
			faults.MustBeUnknown(t, err)
			if err == nil || !strings.Contains(err.Error(), other.Index) {
				t.Errorf("%s: error %v does not name the other index", what, err)
			}
		}
		if err := eslock.New(n, opts).Init(t.Context()); !errors.Is(err, driver.ErrUnusable) {
			t.Errorf("a newly opened store: error %v", err)
		}
		move(other.Index, empty)
		var listed error
		for _, listed = range s.List(t.Context(), driver.Filter{}) {
			break
		}
		if faults.MustBeUnknown(t, listed); !strings.Contains(fmt.Sprint(listed), empty) {
			t.Errorf("list: error %v does not name the other index", listed)
		}
		move(empty, opts.Index)
		_ = ask.Refused(t, s, ask.Request("r", "b"))
		if rs, err := s.Renew(t.Context(), []driver.RenewRequest{{HoldRef: ref, TTL: time.Hour}}); err != nil || rs[0].Err != nil {
			t.Errorf("renewed %+v, %v", rs, err)
		}
		ask.Released(t, s, ref, 0)
	})
}

// Documents of a data stream cannot change.
func TestDataStream(t *testing.T) {
	onBoth(t, func(t *testing.T, n node) {
		stream := n.Index(t)
		template := object{"index_patterns": []string{stream}, "data_stream": object{}}
		status, _ := n.Ask(t.Context(), t, http.MethodPut, "/_index_template/"+stream, template)
		if status/100 != 2 {
			t.Skip("this server has no data streams")
		}
		status, _ = n.Ask(t.Context(), t, http.MethodPut, "/_data_stream/"+stream, nil)
		if status/100 != 2 {
			n.Must(t, http.MethodDelete, "/_index_template/"+stream, nil)
			t.Skip("this server has no data streams")
		}
		err := eslock.New(n, &eslock.Options{Index: stream}).Init(t.Context())
		if !errors.Is(err, driver.ErrUnusable) || !strings.Contains(err.Error(), "data stream") {
			t.Errorf("error %v", err)
		}
		n.Must(t, http.MethodDelete, "/_data_stream/"+stream, nil)
		n.Must(t, http.MethodDelete, "/_index_template/"+stream, nil)
	})
}
