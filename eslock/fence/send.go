package fence

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
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
)

const (
	// onConflict is how often the server tries an update again by itself.
	onConflict = 5
	// maxTries bounds how often one is sent that still met a conflict.
	maxTries = 8
	// maxReply bounds what is read of an answer.
	maxReply = 1 << 20
)

// The server's types of errors that are understood.
const (
	missing  = "document_missing_exception"
	conflict = "version_conflict_engine_exception"
)

// reply is what the server says of the update.
type reply struct {
	ID     string       `json:"_id"`
	Result string       `json:"result"`
	Error  *serverError `json:"error"`
	Get    struct {
		Source map[string]json.RawMessage `json:"_source"`
	} `json:"get"`
}

// serverError is how a server explains that it did not do something.
type serverError struct {
	Type     string       `json:"type"`
	Reason   string       `json:"reason"`
	CausedBy *serverError `json:"caused_by"`
}

func (e *serverError) Error() string {
	text := e.Type + ": " + e.Reason
	if e.CausedBy != nil {
		text += ": " + e.CausedBy.Error()
	}
	return text
}

// UnmarshalJSON reads an object, or the text that some errors are.
func (e *serverError) UnmarshalJSON(text []byte) error {
	if json.Unmarshal(text, &e.Reason) == nil {
		return nil
	}
	type object serverError // without this method
	return json.Unmarshal(text, (*object)(e))
}

func (d Document) send(ctx context.Context, body []byte) (done, kept *reply, err error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err // nothing was sent
	}
	target := url.URL{Path: "/_bulk"}
	if d.Refresh != "" {
		target.RawQuery = url.Values{"refresh": {d.Refresh}}.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target.String(), bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("Content-Type", "application/x-ndjson")
	res, err := d.Client.Perform(req)
	if err != nil {
		return nil, nil, ended(ctx, err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxReply))
	if err != nil {
		return nil, nil, ended(ctx, fmt.Errorf("reading the answer: %w", err))
	}
	return understand(res.StatusCode, text)
}

// understand reads the answer to a bulk of an update and a look.
func understand(status int, text []byte) (done, kept *reply, err error) {
	var bulk struct {
		Error *serverError              `json:"error"`
		Items []struct{ Update *reply } `json:"items"`
	}
	err = json.Unmarshal(text, &bulk)
	switch {
	case err == nil && bulk.Error != nil:
		return nil, nil, fmt.Errorf("status %d: %w", status, bulk.Error)
	case status/100 != 2:
		return nil, nil, fmt.Errorf("status %d", status)
	case err != nil || len(bulk.Items) != 2 || bulk.Items[0].Update == nil || bulk.Items[1].Update == nil:
		return nil, nil, fmt.Errorf("status %d with an answer that is not from Elasticsearch or OpenSearch, or not all of it", status)
	}
	return bulk.Items[0].Update, bulk.Items[1].Update, nil
}

// registered looks whether the document has the token, or another holder's that is
// larger, after the update.
func (r *reply) registered(id string, token uint64) error {
	var seen float64
	switch text, is := r.Get.Source[Field]; {
	case r.ID != id:
		return fmt.Errorf("the answer is about %q", r.ID)
	case r.Error != nil:
		return fmt.Errorf("whether the token is registered is not known: %w", r.Error)
	case is && json.Unmarshal(text, &seen) == nil && seen >= float64(token):
		return nil
	}
	return fmt.Errorf("the token is not registered, and stale holders are not kept away: the index does not store the field %q of documents. Look at _source in its mapping, and at ingest pipelines", Field)
}

// outcome is what the reply says of the document with that ID.
func (r *reply) outcome(id string, token uint64) error {
	switch {
	case r.ID != id:
		return fmt.Errorf("the answer is about %q", r.ID)
	case r.Error != nil:
		return r.Error
	case r.Result == "created", r.Result == "updated":
		return nil
	case r.Result != "noop":
		return fmt.Errorf("the answer says %q", r.Result)
	}
	text, is := r.Get.Source[Field]
	if !is {
		return errors.New("it was not changed, and the answer does not say why")
	}
	var seen float64 // exact as far as tokens go
	if json.Unmarshal(text, &seen) != nil || seen > driver.MaxToken {
		return fmt.Errorf("%w: its field %q is not a token", holdfast.ErrDamaged, Field)
	}
	if seen <= float64(token) {
		return errors.New("it was not changed, and the answer does not say why")
	}
	return fmt.Errorf("%w: it has seen token %.0f, which is larger than %d", holdfast.ErrStale, seen, token)
}

func backOff(ctx context.Context, try int) error {
	t := time.NewTimer(rand.N(time.Millisecond << min(try, 7)))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ended makes an error ctx's where ctx has ended, whatever the client says then.
func ended(ctx context.Context, err error) error {
	if end := ctx.Err(); end != nil && !errors.Is(err, end) {
		return fmt.Errorf("%w: %w", end, err)
	}
	return err
}
