package eslock

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// object is one in JSON.
type object map[string]any

const (
	// page is how many documents a search finds at once.
	page = chunk
	// keepAlive is how long the server keeps a point in time for the next page.
	keepAlive = "1m"
	// toClose bounds how long it takes to give one up.
	toClose = 5 * time.Second
)

// epoch is what expires says of a document without holds.
const epoch = "1970-01-01T00:00:00Z"

// The parts of queries. They only choose what to look at: what is true is read
// from the documents themselves. "now" is the clock of the node that searches.
func hasHolds() object { return expires(object{"gt": epoch}) }

func expires(bounds object) object {
	bounds["format"] = "strict_date_optional_time"
	return object{"range": object{"expires": bounds}}
}

func term(field, value string) object { return object{"term": object{field: value}} }

func all(queries ...object) object { return object{"bool": object{"filter": queries}} }

func either(queries ...object) object { return object{"bool": object{"should": queries}} }

// pointInTime is a form of the request for a view that does not change, which the
// two servers have under different names.
type pointInTime struct {
	path  string // in the index, to open
	close string
	sort  []object // by which every document has a place of its own
	// shut makes the body that closes.
	shut func(id string) any
}

var pointsInTime = []pointInTime{
	{ // Elasticsearch
		path: "_pit", close: "/_pit", sort: []object{{"_shard_doc": "asc"}},
		shut: func(id string) any { return object{"id": id} },
	},
	{ // OpenSearch
		path: "_search/point_in_time", close: "/_search/point_in_time", sort: []object{{"_seq_no": "asc"}, {"_id": "asc"}},
		shut: func(id string) any { return object{"pit_id": []string{id}} },
	},
}

// search yields the documents that match, in pages, as they were at its start:
// all that was written before is seen. It ends after the first error.
func (s *Store) search(ctx context.Context, query object) iter.Seq2[[]document, error] {
	return func(yield func([]document, error) bool) {
		var refreshed struct{}
		if _, err := s.call(ctx, http.MethodPost, s.at("_refresh"), nil, nil, &refreshed); err != nil {
			yield(nil, err)
			return
		}
		form, id, err := s.openPoint(ctx)
		if err != nil {
			yield(nil, err)
			return
		}
		defer func() { s.closePoint(ctx, form, id) }()
		body := object{
			"size": page, "query": query, "sort": form.sort, "_source": false, "track_total_hits": false,
		}
		for {
			body["pit"] = object{"id": id, "keep_alive": keepAlive}
			found, err := s.page(ctx, body)
			if err != nil {
				yield(nil, err)
				return
			}
			if found.PIT != "" {
				id = found.PIT
			}
			hits := found.Hits.Hits
			docs := make([]document, len(hits))
			for i, hit := range hits {
				docs[i] = document{ID: hit.ID}
			}
			if len(docs) > 0 && !yield(docs, nil) || len(docs) < page {
				return
			}
			body["search_after"] = hits[len(hits)-1].Sort
		}
	}
}

// openPoint opens a point in time in the form that the server has. Elasticsearch's
// is tried first: OpenSearch says that it does not know it.
func (s *Store) openPoint(ctx context.Context) (form *pointInTime, id string, err error) {
	first := int(s.pit.Load()) // which others may set meanwhile
	for try := range pointsInTime {
		at := (first + try) % len(pointsInTime)
		form = &pointsInTime[at]
		var opened struct {
			ID  string `json:"id"`
			PIT string `json:"pit_id"`
		}
		var status int
		status, err = s.call(ctx, http.MethodPost, s.at(form.path), url.Values{"keep_alive": {keepAlive}}, nil, &opened)
		if id = opened.ID + opened.PIT; err == nil && id == "" {
			err = s.wrap(fmt.Errorf("the server opened a point in time without an ID"))
		}
		if err == nil {
			s.pit.Store(int32(at))
			return form, id, nil
		}
		if status != http.StatusBadRequest && status != http.StatusMethodNotAllowed {
			break
		}
	}
	return nil, "", err
}

// closePoint frees what the server keeps, which ends by itself soon.
func (s *Store) closePoint(ctx context.Context, form *pointInTime, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), toClose)
	defer cancel()
	body, err := json.Marshal(form.shut(id))
	if err != nil {
		return
	}
	var closed struct{}
	_, _ = s.call(ctx, http.MethodDelete, form.close, nil, body, &closed)
}

// found is one page.
type found struct {
	PIT      string `json:"pit_id"`
	TimedOut bool   `json:"timed_out"`
	Shards   *struct {
		Failed int `json:"failed"`
	} `json:"_shards"`
	Hits struct {
		Hits []struct {
			ID   string          `json:"_id"`
			Sort json.RawMessage `json:"sort"`
		} `json:"hits"`
	} `json:"hits"`
}

// page searches for one page. A page that may lack something is an error.
func (s *Store) page(ctx context.Context, query object) (found, error) {
	var f found
	body, err := json.Marshal(query)
	if err != nil {
		return f, err
	}
	parameters := url.Values{"allow_partial_search_results": {"false"}}
	if _, err := s.call(ctx, http.MethodPost, "/_search", parameters, body, &f); err != nil {
		return f, err
	}
	if f.Shards == nil || f.Shards.Failed > 0 || f.TimedOut {
		return f, s.wrap(fmt.Errorf("the search did not see all of the index"))
	}
	return f, nil
}

// look reads documents as they are now, with the server's clock.
func (s *Store) look(ctx context.Context, docs []document) []outcome {
	asks := make([]ask, len(docs))
	for i, d := range docs {
		asks[i] = ask{d, d}
	}
	return s.apply(ctx, lookAt, asks)
}

// query finds all documents with holds that the filter may choose.
func query(f driver.Filter) object {
	queries := []object{hasHolds()}
	// What old clients wrote is found by owner, whose keyword may leave out what
	// is long.
	if f.LockID != "" && len(f.LockID) <= maxKeyword {
		queries = append(queries, either(term("holdfast.holds.lockId", f.LockID), term("owner.keyword", f.LockID)))
	}
	if f.Owner != "" {
		queries = append(queries, term("holdfast.holds.owner", f.Owner))
	}
	return all(queries...)
}
