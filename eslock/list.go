package eslock

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"net/url"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/model"
)

const (
	// page is the number of documents in a page of a search.
	page = chunk
	// keepAlive is how long the server keeps a search for its next page.
	keepAlive = "1m"
	// lately is a time for searches that no node's clock has passed by more than 5 s, the
	// longest margin.
	lately = "now-5s"
	// closeTimeout is the time limit for closing a search.
	closeTimeout = 5 * time.Second
	// epoch is the value of expires in a document without holds.
	epoch = "1970-01-01T00:00:00Z"
)

// List implements driver.Store. The document of a single resource has a known ID. To find
// several, List searches after a refresh. It then reads the documents by updates that
// change nothing, because no other request returns the clock of their shards. So the user
// needs the right to write.
func (s *Store) List(ctx context.Context, f driver.Filter) iter.Seq2[driver.Status, error] {
	return model.Each(ctx, s.records(ctx, f.Resource, query(f)), func(o outcome) []driver.Status {
		return model.Statuses(o.record, o.now, f)
	})
}

// Waiters implements driver.Queue, as List does. A document's time is not before the end
// of its places, so the search finds all live places unless the clocks of two nodes
// differ by more than the longest margin of a Client.
func (s *Store) Waiters(ctx context.Context, f driver.Filter) iter.Seq2[driver.Place, error] {
	waiting := object{"range": object{"holdfast.time": object{"gt": lately}}}
	return model.Each(ctx, s.records(ctx, f.Resource, waiting), func(o outcome) []driver.Place {
		return model.Places(o.record, o.now, f)
	})
}

// records yields the document of the resource, or the documents that match the query.
func (s *Store) records(ctx context.Context, resource string, query object) iter.Seq2[outcome, error] {
	return func(yield func(outcome, error) bool) {
		pages := s.search(ctx, query)
		if resource != "" {
			pages = func(yield func([]ask, error) bool) { yield([]ask{{document: documentOf(resource)}}, s.ready(ctx)) }
		}
		empty := true
		for asks, err := range pages {
			if err != nil {
				yield(outcome{}, err)
				return
			}
			empty = false
			for _, o := range s.apply(ctx, look, asks) {
				if !yield(o, o.err) {
					return
				}
			}
		}
		if empty { // unlike an update, a search does not return the name of its index
			absent := documentOf(driver.NewHoldID().String())
			if o := s.apply(ctx, look, []ask{{document: absent}})[0]; o.err != nil {
				yield(o, o.err)
			}
		}
	}
}

// object is a JSON object.
type object map[string]any

// The parts of queries. Queries only choose documents; they decide nothing. "now" is the
// clock of the node that searches.
func hasHolds() object { return expires(object{"gt": epoch}) }

func expires(bounds object) object {
	bounds["format"] = "strict_date_optional_time"
	return object{"range": object{"expires": bounds}}
}

func term(field, value string) object { return object{"term": object{field: value}} }

func all(queries ...object) object { return object{"bool": object{"filter": queries}} }

func either(queries ...object) object { return object{"bool": object{"should": queries}} }

// query finds all documents with holds that the filter may choose.
func query(f driver.Filter) object {
	queries := []object{hasHolds()}
	// Holds of old clients are found by owner, whose keyword may lack long values.
	if f.LockID != "" && len(f.LockID) <= maxKeyword {
		queries = append(queries, either(term("holdfast.holds.lockId", f.LockID), term("owner.keyword", f.LockID)))
	}
	if f.Owner != "" {
		queries = append(queries, term("holdfast.holds.owner", f.Owner))
	}
	return all(queries...)
}

// found is one page of a search.
type found struct {
	Scroll   string                `json:"_scroll_id"`
	TimedOut bool                  `json:"timed_out"`
	Shards   *struct{ Failed int } `json:"_shards"`
	Hits     struct {
		Total *struct{ Value int } // of all pages
		Hits  []struct {
			ID string `json:"_id"`
		}
	}
}

// search yields the matching documents, in pages, as they were at its start: it sees all
// earlier writes. It ends after the first error.
//
// It scrolls, which reads an index in the order of storage. All servers can do that. Some
// are configured not to sort by _id, and the documents of old clients have no other field
// to sort by.
//
//go:noinline
func (s *Store) search(ctx context.Context, query object) iter.Seq2[[]ask, error] {
	return func(yield func([]ask, error) bool) {
		var f found
		err := s.refresh(ctx)
		if err == nil {
			err = s.page(ctx, s.at("_search"), url.Values{"scroll": {keepAlive}, "allow_partial_search_results": {"false"}}, object{
				"size": page, "query": query, "sort": []string{"_doc"}, "_source": false, "track_total_hits": true,
			}, &f)
		}
		defer func() { s.closeScroll(ctx, f.Scroll) }()
		for seen := 0; err == nil && seen < f.Hits.Total.Value; {
			if len(f.Hits.Hits) == 0 {
				// The answer to a request for a page was lost, and a client or a proxy
				// sent the request again: it got the next page.
				err = s.incomplete()
				break
			}
			asks := make([]ask, len(f.Hits.Hits))
			for i, hit := range f.Hits.Hits {
				asks[i].ID = hit.ID
			}
			if !yield(asks, nil) {
				return
			}
			if seen += len(asks); seen >= f.Hits.Total.Value {
				return
			}
			f = found{Scroll: f.Scroll}
			err = s.page(ctx, "/_search/scroll", nil, object{"scroll": keepAlive, "scroll_id": f.Scroll}, &f)
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

// page requests one page. It returns an error if the page may be incomplete.
func (s *Store) page(ctx context.Context, path string, params url.Values, query object, f *found) error {
	err := s.call(ctx, http.MethodPost, path, params, query, f)
	if err == nil && (f.Shards == nil || f.Shards.Failed > 0 || f.TimedOut || f.Hits.Total == nil) {
		err = s.incomplete()
	}
	return err
}

func (s *Store) incomplete() error {
	return s.wrap(errors.New("the search did not see all of the index"))
}

// refresh makes earlier writes visible to searches.
func (s *Store) refresh(ctx context.Context) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	var reply struct {
		Shards struct{ Failed int } `json:"_shards"`
	}
	err := s.call(ctx, http.MethodPost, s.at("_refresh"), nil, nil, &reply)
	if err == nil && reply.Shards.Failed > 0 {
		err = s.incomplete()
	}
	return err
}

// closeScroll ends the server's search, which would soon end by itself.
func (s *Store) closeScroll(ctx context.Context, id string) {
	if id == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	_ = s.call(ctx, http.MethodDelete, "/_search/scroll", nil, object{"scroll_id": id}, &struct{}{})
}
