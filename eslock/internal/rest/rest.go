// Package rest sends requests to Elasticsearch and OpenSearch and reads their
// answers.
package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/internal/foreign"
)

// Performer is the Performer of package eslock.
type Performer interface {
	Perform(*http.Request) (*http.Response, error)
}

// MaxAnswer is the largest answer that is read, in bytes.
const MaxAnswer = 64 << 20

// ErrLongAnswer is the error of an answer that is longer than MaxAnswer.
var ErrLongAnswer = fmt.Errorf("the answer has more than %d bytes", MaxAnswer)

// Call sends a request and decodes the JSON of its answer into reply. A status
// other than 2xx is an error, an *Error if the server explained it. A body for
// /_bulk consists of lines.
func Call(ctx context.Context, client Performer, method, path string, params url.Values, body []byte, reply any) error {
	if err := ctx.Err(); err != nil {
		return err // nothing was sent
	}
	target := url.URL{Path: path, RawQuery: params.Encode()}
	req, err := http.NewRequestWithContext(ctx, method, target.String(), bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/json")
	switch {
	case body == nil:
		req.Body, req.GetBody = nil, nil
	case strings.HasSuffix(path, "/_bulk"):
		req.Header.Set("Content-Type", "application/x-ndjson")
	default:
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := client.Perform(req)
	if err != nil {
		return foreign.Error(ctx, err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, MaxAnswer+1))
	switch {
	case err != nil:
		err = foreign.Error(ctx, fmt.Errorf("reading the answer: %w", err))
	case len(text) > MaxAnswer:
		err = ErrLongAnswer
	default:
		err = decode(res, text, reply)
	}
	if err != nil && res.Request != nil && res.Request.URL != nil && res.Request.URL.Host != "" {
		err = fmt.Errorf("%s: %w", res.Request.URL.Host, err)
	}
	return err
}

func decode(res *http.Response, text []byte, reply any) error {
	var refused struct{ Error *Error }
	switch code := res.StatusCode; {
	case code/100 == 2 && json.Unmarshal(text, reply) == nil:
		return nil
	case code/100 != 2 && json.Unmarshal(text, &refused) == nil && refused.Error != nil:
		refused.Error.Status = code
		return refused.Error
	case code == http.StatusUnauthorized, code == http.StatusForbidden, code == http.StatusRequestEntityTooLarge:
		return &Error{Status: code} // from a proxy or a security plugin
	}
	// The error repeats nothing of the answer, which may come from any server.
	kind, _, err := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if err != nil {
		kind = "unknown type"
	}
	return fmt.Errorf("status %d with an answer (%s) that is not from Elasticsearch or OpenSearch, or not all of it", res.StatusCode, kind)
}

// Item is the answer to one update of a bulk. Get has the requested part of the
// document's source.
type Item[Source any] struct {
	Index  string `json:"_index"`
	ID     string `json:"_id"`
	Result string
	Status int
	Error  *Error
	Get    struct {
		Source Source `json:"_source"`
	}
}

// The possible results of an update.
const (
	Created = "created"
	Updated = "updated"
	Noop    = "noop"
)

// Bulk sends updates of the documents with these IDs, and returns the answer to each.
func Bulk[Source any](ctx context.Context, client Performer, path string, params url.Values, body []byte, ids []string) ([]Item[Source], error) {
	var reply struct {
		Items []struct{ Update Item[Source] }
	}
	if err := Call(ctx, client, http.MethodPost, path, params, body, &reply); err != nil {
		return nil, err
	}
	if len(reply.Items) != len(ids) {
		return nil, fmt.Errorf("%d updates got %d answers", len(ids), len(reply.Items))
	}
	items := make([]Item[Source], len(ids))
	for i := range items {
		items[i] = reply.Items[i].Update
		switch it := &items[i]; {
		case it.ID != ids[i]: // a proxy or a client has mixed up answers
			return nil, fmt.Errorf("the answer to update %d is about document %q, not %q", i, it.ID, ids[i])
		case it.Error != nil:
			it.Error.Status = it.Status
		}
	}
	return items, nil
}

// Pause waits for a random time up to most before a request is sent again. The error is
// ctx.Err() if ctx ends.
func Pause(ctx context.Context, most time.Duration) error {
	return backoff.Wait(ctx, rand.N(most))
}
