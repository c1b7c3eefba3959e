package eslock

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

const (
	// onConflict is how often the server tries an update again by itself, because
	// another changed the document since it was read. It does so at once: what has
	// met a conflict as often as that is one of many, who would keep each other from
	// coming through, and is from then on tried once more at a time.
	onConflict = 5
	// maxTries bounds how often an update is sent that still met a conflict, unless it
	// is about holds that are there.
	maxTries = 100
	// maxBackOff is the longest pause between two tries, in powers of 2 ms.
	maxBackOff = 8
	// chunk is how much is asked for at once, in updates of some 6 KB each.
	chunk = 500
	// maxReply bounds what is read of an answer.
	maxReply = 64 << 20
	// forPrimary is how long a server waits for a primary shard that is missing.
	forPrimary = "10s"
	// toCompile is how long it waits for that before anybody asks for a lock.
	toCompile = "1s"
)

// apply asks for all, in as few updates as the statement allows, and returns what
// became of each. What the server did not decide, because others came in between, was
// not done, and is sent again: of holds that are there until ctx ends, for they end
// if nobody hears of them, and else a bounded number of times, which leaves the
// server to others. A failure to send is the outcome of each that was concerned.
//
// Any update may be applied twice or late without harm: the hold ID decides what
// it finds.
func (s *Store) apply(ctx context.Context, st *statement, asks []ask) []outcome {
	all := make([]outcome, len(asks))
	open := make([]int, len(asks))
	for i := range open {
		open[i] = i
	}
	for try := 0; st.refs || try < maxTries; try++ {
		if try > 0 && backOff(ctx, try) != nil {
			return all // the conflicts are their errors
		}
		inside := onConflict
		if try > 0 {
			inside = 1
		}
		var again []int
		for start, most := 0, int(s.most.Load()); start < len(open); start += most {
			part := open[start:min(start+most, len(open))]
			send := make([]ask, len(part))
			for i, at := range part {
				send[i] = asks[at]
			}
			for i, o := range s.send(ctx, st, send, inside) {
				all[part[i]] = o
				if isConflict(o.err) {
					again = append(again, part[i])
				}
			}
		}
		if open = again; len(open) == 0 {
			break
		}
	}
	return all
}

func backOff(ctx context.Context, try int) error {
	t := time.NewTimer(rand.N(time.Millisecond << min(try, maxBackOff)))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// send asks in one request. The server tries each update again inside that often.
func (s *Store) send(ctx context.Context, st *statement, asks []ask, inside int) []outcome {
	updates := st.updates(asks)
	var items []item
	var err error
	if len(updates) == 1 && plain(updates[0].ID) {
		items, err = s.sendOne(ctx, st, updates[0], inside)
	} else {
		items, err = s.sendBulk(ctx, st, updates, inside)
	}
	if half := len(asks) / 2; half > 0 && (isTooLarge(err) || st == lookAt && errors.Is(err, errLongAnswer)) {
		// Nobody has looked at it, or was to change anything: only who looks is told
		// of all the holds in a document. What is sent from now on is smaller.
		if most := s.most.Load(); most > int32(half) {
			s.most.CompareAndSwap(most, int32(half))
		}
		return append(s.send(ctx, st, asks[:half], inside), s.send(ctx, st, asks[half:], inside)...)
	}
	outcomes := make([]outcome, len(asks))
	for i, u := range updates {
		var each []outcome
		if err != nil {
			each = u.all(outcome{err: err})
		} else {
			each = s.understand(&items[i], st, u)
		}
		for k, at := range u.of {
			outcomes[at] = each[k]
			outcomes[at].err = s.wrap(outcomes[at].err)
		}
	}
	return outcomes
}

// understand says what became of each ask of an update.
func (s *Store) understand(it *item, st *statement, u update) []outcome {
	missed := false
	if len(it.Error) > 0 {
		e := understandError(it.Status, it.Error)
		if missed = e.Type == documentMissing && e.Status == http.StatusNotFound; !missed {
			return u.all(outcome{err: e})
		}
	}
	switch {
	case s.elsewhere(it.Index):
		return u.all(outcome{err: fmt.Errorf("the answer about %q is from the index %s, where the locks are not: somebody has moved the alias %s; a store that is opened now says what to do",
			u.ID, it.Index, s.place.Load().alias)})
	case missed:
		return u.all(outcome{did: missing})
	}
	return it.outcomes(st, u.document, len(u.of))
}

// plain: nobody on the way can take the name for anything but one part of a path.
// Other names are sent in a body: a client that puts a path before that of a
// request loses how it was escaped, and a proxy may resolve dots.
func plain(id string) bool {
	return strings.Trim(id, ".") != "" && !strings.ContainsFunc(id, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_' && r != '.'
	})
}

func (s *Store) sendOne(ctx context.Context, st *statement, u update, inside int) ([]item, error) {
	var body bytes.Buffer
	if err := st.body(&body, u.params); err != nil {
		return nil, err
	}
	parameters := s.writing()
	parameters.Set("retry_on_conflict", strconv.Itoa(inside))
	var it item
	status, err := s.call(ctx, http.MethodPost, s.at("_update", u.ID), parameters, body.Bytes(), &it)
	var refused *serverError
	if errors.As(err, &refused) && refused.Type == documentMissing {
		return []item{{Index: refused.Index, Status: status, Error: refused.raw}}, nil
	}
	it.Status = status
	return []item{it}, err
}

func (s *Store) sendBulk(ctx context.Context, st *statement, updates []update, inside int) ([]item, error) {
	var body bytes.Buffer
	for _, u := range updates {
		if err := bulkLine(&body, u.ID, inside); err != nil {
			return nil, err
		}
		if err := st.body(&body, u.params); err != nil {
			return nil, err
		}
		body.WriteByte('\n')
	}
	var reply struct {
		Items []map[string]item `json:"items"`
	}
	if _, err := s.call(ctx, http.MethodPost, s.at("_bulk"), s.writing(), body.Bytes(), &reply); err != nil {
		return nil, err
	}
	if len(reply.Items) != len(updates) {
		return nil, s.wrap(fmt.Errorf("%d updates got %d answers", len(updates), len(reply.Items)))
	}
	items := make([]item, len(updates))
	for i, it := range reply.Items {
		items[i] = it["update"]
		if items[i].ID != updates[i].ID {
			return nil, s.wrap(fmt.Errorf("the answer to update %d is about document %q, not %q", i, items[i].ID, updates[i].ID))
		}
	}
	return items, nil
}

// bulkLine appends the line of a bulk that says what is updated.
func bulkLine(body *bytes.Buffer, id string, inside int) error {
	var line struct {
		Update struct {
			ID         string `json:"_id"`
			OnConflict int    `json:"retry_on_conflict"`
		} `json:"update"`
	}
	line.Update.ID, line.Update.OnConflict = id, inside
	return json.NewEncoder(body).Encode(line) // ends with a line feed
}

// compile has the server compile the scripts, which takes a node that has just
// started longer than a lock with a short TTL can wait. What does not work is told
// to whoever locks.
func (s *Store) compile(ctx context.Context) {
	var body bytes.Buffer
	id := driver.NewHoldID().String()
	for _, st := range statements {
		if bulkLine(&body, id, 0) != nil || st.trial(&body, document{ID: id, Resource: &id}) != nil {
			return
		}
		body.WriteByte('\n')
	}
	parameters := s.writing()
	parameters.Set("timeout", toCompile)
	parameters.Del("wait_for_active_shards")
	var reply struct{}
	_, _ = s.call(ctx, http.MethodPost, s.at("_bulk"), parameters, body.Bytes(), &reply)
}

// writing are the parameters of writes. That the name must be an alias keeps the
// server from making an index of its own idea when there is none any more.
func (s *Store) writing() url.Values {
	v := url.Values{"require_alias": {"true"}, "timeout": {forPrimary}}
	if s.o.WaitForActiveShards != "" {
		v.Set("wait_for_active_shards", s.o.WaitForActiveShards)
	}
	return v
}

// at is the path of something in the index.
func (s *Store) at(parts ...string) string {
	return "/" + s.place.Load().alias + "/" + strings.Join(parts, "/")
}

// elsewhere reports whether an answer comes from another index than Init saw.
func (s *Store) elsewhere(index string) bool {
	own := s.place.Load().index
	return own != "" && index != "" && index != own
}

// errLongAnswer is the error of an answer that is not read to its end.
var errLongAnswer = fmt.Errorf("the answer has more than %d bytes", maxReply)

// call sends a request and decodes the JSON of its answer into reply. A status
// other than 2xx is an error, with a *serverError if the server explained it.
func (s *Store) call(ctx context.Context, method, path string, parameters url.Values, body []byte, reply any) (status int, err error) {
	req, err := http.NewRequestWithContext(ctx, method, (&url.URL{Path: path, RawQuery: parameters.Encode()}).String(), bytes.NewReader(body))
	if err != nil {
		return 0, s.wrap(err)
	}
	req.Header.Set("Accept", "application/json")
	if body == nil {
		req.Body, req.GetBody = nil, nil
	} else {
		req.Header.Set("Content-Type", "application/json")
		if strings.HasSuffix(path, "/_bulk") {
			req.Header.Set("Content-Type", "application/x-ndjson")
		}
	}
	res, err := s.client.Perform(req)
	if err != nil {
		return 0, s.wrap(failed(ctx, err))
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxReply+1))
	if err == nil && len(text) > maxReply {
		err = errLongAnswer
	}
	if err != nil {
		return res.StatusCode, s.wrapAt(res, failed(ctx, fmt.Errorf("reading the answer: %w", err)))
	}
	if res.StatusCode/100 != 2 {
		return res.StatusCode, s.wrapAt(res, refusal(res, text))
	}
	if err := json.Unmarshal(text, reply); err != nil {
		return res.StatusCode, s.wrapAt(res, notJSON(res))
	}
	return res.StatusCode, nil
}

// failed makes an error ctx's where ctx has ended, whatever the client says then.
func failed(ctx context.Context, err error) error {
	if ended := ctx.Err(); ended != nil && !errors.Is(err, ended) {
		return fmt.Errorf("%w: %w", ended, err)
	}
	return err
}
