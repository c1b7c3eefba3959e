package eslock

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/eslock/internal/rest"
)

const (
	// onConflict is how often the server itself repeats an update because another update
	// changed the document since it was read. It does so at once. An update with so many
	// conflicts is one of many simultaneous updates, which would delay each other. After
	// that, each request lets the server retry once.
	onConflict = 5
	// maxTries is how often an acquire with conflicts is sent.
	maxTries = 100
	// placeTries is how many of these tries write the place of a refused request.
	placeTries = 10
	// maxBackOff is the exponent of the longest pause between two tries, 2^maxBackOff ms.
	maxBackOff = 8
	// chunk is the largest number of updates in a request, of some 6 to 8 KB each.
	chunk = 500
	// primaryTimeout is how long a server waits for a missing primary shard.
	primaryTimeout = "10s"
	// compileTimeout is the same while it compiles the scripts.
	compileTimeout = "1s"
)

// ask is one request about a document: for a new hold, about the existing hold ref, or,
// without both, about the whole document.
type ask struct {
	document
	acquire *acquireParams
	ref     *refParams
}

// update is the update of a document for all asks about it. They share one update,
// because each update reads the whole document, is written to all copies, and blocks
// other updates of the document while it runs.
type update struct {
	document
	*acquireParams
	Refs []refParams `json:"refs"`
	of   []int
}

func updatesOf(asks []ask, part []int) []*update {
	var updates []*update
	byID := make(map[string]*update, len(part))
	for _, i := range part {
		a := asks[i]
		u := byID[a.ID]
		if u == nil {
			u = &update{document: a.document, acquireParams: a.acquire, Refs: []refParams{}}
			byID[a.ID], updates = u, append(updates, u)
		}
		if u.of = append(u.of, i); a.ref != nil {
			u.Refs = append(u.Refs, *a.ref)
		}
	}
	return updates
}

// apply sends all asks, in as few updates as possible, and returns their outcomes. If
// other updates interfere, the server does not decide an update. That update has changed
// nothing, and apply sends it again: an acquire a bounded number of times, so that other
// clients get their turn, and any other update until ctx ends, because a hold that is not
// renewed ends. The last tries of an acquire write no place: a refusal without a place
// stores nothing, so it has no conflict. If a request cannot be sent, that is the outcome
// of all its asks.
//
// Any update may be applied twice or late without harm: it names its hold by the hold ID.
func (s *Store) apply(ctx context.Context, st *statement, asks []ask) []outcome {
	all := make([]outcome, len(asks))
	open := make([]int, len(asks))
	for i := range open {
		open[i] = i
	}
	for try, inside := 0, onConflict; len(open) > 0 && (st != acquire || try < maxTries); try, inside = try+1, 1 {
		if try > 0 && rest.Pause(ctx, time.Millisecond<<min(try, maxBackOff)) != nil {
			break // their errors are the conflicts
		}
		if st == acquire && try == placeTries {
			for _, i := range open {
				asks[i].acquire.PlaceTTL = 0
			}
		}
		for part := range slices.Chunk(open, int(s.most.Load())) {
			s.send(ctx, st, asks, part, inside, all)
		}
		open = slices.DeleteFunc(open, func(i int) bool { return !rest.IsConflict(all[i].err) })
	}
	return all
}

// send sends some updates in one request, and sets the outcomes. The server itself
// repeats each update up to inside times.
func (s *Store) send(ctx context.Context, st *statement, asks []ask, part []int, inside int, all []outcome) {
	updates := updatesOf(asks, part)
	items, err := s.bulk(ctx, st, updates, inside)
	if half := len(part) / 2; half > 0 && (rest.IsTooLarge(err) || errors.Is(err, rest.ErrLongAnswer) && asks[part[0]].ref == nil) {
		// The server has not processed a request that is too large. An answer is too long
		// only if it has all the holds of documents, for a look or a sweep, which may be
		// repeated. Later requests are smaller.
		if most := s.most.Load(); most > int32(half) {
			s.most.CompareAndSwap(most, int32(half))
		}
		s.send(ctx, st, asks, part[:half], inside, all)
		s.send(ctx, st, asks, part[half:], inside, all)
		return
	}
	for i, u := range updates {
		outcomes := slices.Repeat([]outcome{{err: err}}, len(u.of))
		if err == nil {
			outcomes = s.outcomes(st, u, &items[i])
		}
		for k, at := range u.of {
			all[at] = outcomes[k]
			all[at].err = s.wrap(all[at].err)
		}
	}
}

func (s *Store) bulk(ctx context.Context, st *statement, updates []*update, inside int) ([]item, error) {
	var body bytes.Buffer
	options := ""
	if st == acquire {
		options = upsert
	}
	ids := make([]string, len(updates))
	for i, u := range updates {
		ids[i] = u.ID
		if err := st.write(&body, u, inside, options); err != nil {
			return nil, err
		}
	}
	return rest.Bulk[source](ctx, s.client, s.at("_bulk"), s.writing(), body.Bytes(), ids)
}

// outcomes returns the outcome of each ask of an update.
func (s *Store) outcomes(st *statement, u *update, it *item) []outcome {
	index := s.index.Load()
	missed := st != acquire && it.Error != nil && it.Error.Type == rest.DocumentMissing && it.Status == http.StatusNotFound
	o := outcome{}
	switch {
	case it.Error != nil && !missed:
		o.err = it.Error
	case index != nil && it.Index != "" && it.Index != *index:
		o.err = fmt.Errorf("the answer about %q is from the index %s, which is not the index of the locks: the alias %s was moved; a store that is opened now reports what to do",
			u.ID, it.Index, s.alias)
	case !missed:
		return understand(st, u, it)
	}
	return slices.Repeat([]outcome{o}, len(u.of))
}

// compile makes the server compile the scripts. On a node that has just started, that
// takes longer than a lock with a short TTL can wait. It changes nothing: the document
// does not exist, and the request wants nothing. It ignores errors, because acquires
// report them.
func (s *Store) compile(ctx context.Context) {
	var body bytes.Buffer
	none := driver.NewHoldID()
	u := &update{document{ID: none.String()}, &acquireParams{Hold: holdJSON{HoldID: &none}}, []refParams{}, nil}
	for _, st := range []*statement{acquire, renew, release} {
		if st.write(&body, u, 0, upsert) != nil {
			return
		}
	}
	params := s.writing()
	params.Set("timeout", compileTimeout)
	params.Del("wait_for_active_shards")
	_ = rest.Call(ctx, s.client, http.MethodPost, s.at("_bulk"), params, body.Bytes(), &struct{}{})
}

// writing returns the parameters of writes. The name must be an alias, so that the server
// does not create an index if somebody has deleted it.
func (s *Store) writing() url.Values {
	v := url.Values{"require_alias": {"true"}, "timeout": {primaryTimeout}}
	if s.o.WaitForActiveShards != "" {
		v.Set("wait_for_active_shards", s.o.WaitForActiveShards)
	}
	return v
}

// at returns the path of an endpoint of the index.
func (s *Store) at(endpoint string) string { return "/" + s.alias + "/" + endpoint }

// call sends a request with a JSON object, or without a body if body is nil.
func (s *Store) call(ctx context.Context, method, path string, params url.Values, body object, reply any) error {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return err
		}
	}
	return s.wrap(rest.Call(ctx, s.client, method, path, params, text, reply))
}
