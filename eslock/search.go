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
	// keepAlive is how long the server keeps a search for its next page.
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

// found is one page.
type found struct {
	Scroll   string `json:"_scroll_id"`
	TimedOut bool   `json:"timed_out"`
	Shards   *struct {
		Failed int `json:"failed"`
	} `json:"_shards"`
	Hits struct {
		Hits []struct {
			ID string `json:"_id"`
		} `json:"hits"`
	} `json:"hits"`
}

// search yields the documents that match, in pages, as they were at its start:
// all that was written before is seen. It ends after the first error.
//
// It scrolls, which goes through an index in the order that it has: all servers
// can, also where they are told not to sort by _id, which nothing else in the
// documents of old clients could take the place of.
func (s *Store) search(ctx context.Context, query object) iter.Seq2[[]document, error] {
	return func(yield func([]document, error) bool) {
		if err := s.refresh(ctx); err != nil {
			yield(nil, err)
			return
		}
		f, err := s.page(ctx, s.at("_search"), url.Values{"scroll": {keepAlive}, "allow_partial_search_results": {"false"}}, object{
			"size": page, "query": query, "sort": []string{"_doc"}, "_source": false,
		})
		id := f.Scroll
		defer func() { s.closeScroll(ctx, id) }()
		for err == nil && len(f.Hits.Hits) > 0 {
			docs := make([]document, len(f.Hits.Hits))
			for i, hit := range f.Hits.Hits {
				docs[i] = document{ID: hit.ID}
			}
			if !yield(docs, nil) || len(docs) < page {
				return
			}
			if f, err = s.page(ctx, "/_search/scroll", nil, object{"scroll": keepAlive, "scroll_id": id}); f.Scroll != "" {
				id = f.Scroll
			}
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

// refresh makes searches see all that was written.
func (s *Store) refresh(ctx context.Context) error {
	var refreshed struct{}
	_, err := s.call(ctx, http.MethodPost, s.at("_refresh"), nil, nil, &refreshed)
	return err
}

// closeScroll frees what the server keeps, which ends by itself soon.
func (s *Store) closeScroll(ctx context.Context, id string) {
	if id == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), toClose)
	defer cancel()
	body, err := json.Marshal(object{"scroll_id": id})
	if err != nil {
		return
	}
	var closed struct{}
	_, _ = s.call(ctx, http.MethodDelete, "/_search/scroll", nil, body, &closed)
}

// page asks for one page. One that may lack something is an error.
func (s *Store) page(ctx context.Context, path string, parameters url.Values, query object) (found, error) {
	var f found
	body, err := json.Marshal(query)
	if err != nil {
		return f, err
	}
	if _, err := s.call(ctx, http.MethodPost, path, parameters, body, &f); err != nil {
		return f, err
	}
	if f.Shards == nil || f.Shards.Failed > 0 || f.TimedOut {
		return f, s.wrap(fmt.Errorf("the search did not see all of the index"))
	}
	return f, nil
}

// look reads documents as they are now, with the server's clock.
func (s *Store) look(ctx context.Context, docs []document) []outcome {
	return s.apply(ctx, lookAt, asksOf(docs))
}

func asksOf(docs []document) []ask {
	asks := make([]ask, len(docs))
	for i, d := range docs {
		asks[i] = ask{d, d}
	}
	return asks
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
