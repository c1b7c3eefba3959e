// Package oldeslock imitates programs that use the Go package es-distributed-lock, which no
// module proxy serves. It sends the same statements and reads the answers in the same way,
// mistakes included, so that tests can race such programs against Holdfast.
package oldeslock

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// The errors that such programs know.
var (
	ErrHeld     = errors.New("old client: held by other client")
	ErrNoEffect = errors.New("old client: release had no effect")
)

// Performer is a client of the server.
type Performer interface {
	Perform(*http.Request) (*http.Response, error)
}

// Lock is the lock of one such program. Its decisions use the program's own clock.
type Lock struct {
	node  Performer
	index string
	id    string
	owner string
	clock func() time.Time

	mu       sync.Mutex
	ttl      time.Duration
	expires  time.Time // as IsAcquired reports it; set even if the server refused
	granted  time.Time // the end of the last lock that the server granted
	acquired bool
	released bool
	timer    *time.Timer
}

// New returns a lock of the document with the ID, for the owner. The index need not exist: the
// server creates it and its mapping.
func New(node Performer, index, id, owner string, clock func() time.Time) *Lock {
	return &Lock{node: node, index: index, id: id, owner: owner, clock: clock}
}

// script takes over a document of the same owner, or one that has expired on the program's
// clock, and writes only the three fields that it knows.
const script = `
	boolean own = ctx._source.owner == params.owner;
	if (!own && ZonedDateTime.parse(params.now).isBefore(ZonedDateTime.parse(ctx._source.expires))) {
		ctx.op = 'none';
	} else {
		if (!own) {
			ctx._source.acquired = params.acquired;
		}
		ctx._source.owner = params.owner;
		ctx._source.expires = params.expires;
	}`

// Acquire is one update with a refresh. If there is no document, it inserts one with just its
// three fields. It treats a conflict as a refusal.
func (l *Lock) Acquire(ctx context.Context, ttl time.Duration) error {
	now := l.clock()
	expires := now.Add(ttl)
	fields := map[string]any{"owner": l.owner, "acquired": now, "expires": expires}
	params := map[string]any{"owner": l.owner, "acquired": now, "expires": expires, "now": now}
	l.mu.Lock()
	l.ttl, l.expires = ttl, expires
	l.mu.Unlock()
	// Such programs do not escape the ID.
	status, reply, err := l.send(ctx, "/"+l.index+"/_update/"+l.id, url.Values{"refresh": {"true"}}, map[string]any{
		"upsert": fields, "script": map[string]any{"lang": "painless", "source": script, "params": params},
	})
	switch {
	case err != nil:
		return err
	case status == http.StatusConflict:
		return ErrHeld
	case status/100 != 2:
		return fmt.Errorf("old client: acquire: %d %v", status, reply)
	case reply["result"] == "noop":
		return ErrHeld
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acquired, l.released, l.granted = true, false, expires
	return nil
}

// KeepAlive acquires again before each end that it believes in, by the given time, whatever the
// result, until Release.
func (l *Lock) KeepAlive(ctx context.Context, before time.Duration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !l.acquired:
		return errors.New("old client: acquire before keep alive")
	case l.timer != nil:
		return nil
	case before >= l.ttl:
		return errors.New("old client: before expiry is not below TTL")
	}
	l.again(ctx, before)
	return nil
}

func (l *Lock) again(ctx context.Context, before time.Duration) {
	l.timer = time.AfterFunc(max(l.expires.Add(-before).Sub(l.clock()), time.Millisecond), func() {
		l.mu.Lock()
		ttl, over := l.ttl, l.released || ctx.Err() != nil
		l.mu.Unlock()
		if over {
			return
		}
		_ = l.Acquire(ctx, ttl) // ignores the result
		l.mu.Lock()
		defer l.mu.Unlock()
		if !l.released && ctx.Err() == nil {
			l.again(ctx, before)
		}
	})
}

// Release deletes the document by a query for its ID and owner. It reports whether there was
// one.
func (l *Lock) Release(ctx context.Context) (bool, error) {
	l.mu.Lock()
	l.released, l.acquired = true, false // set before the deletion
	l.mu.Unlock()
	match := func(field string) map[string]any {
		value := map[string]string{"_id": l.id, "owner.keyword": l.owner}[field]
		return map[string]any{"term": map[string]any{field: value}}
	}
	status, reply, err := l.send(ctx, "/"+l.index+"/_delete_by_query", url.Values{"refresh": {"true"}, "conflicts": {"proceed"}}, map[string]any{
		"query": map[string]any{"bool": map[string]any{"must": []any{match("_id"), match("owner.keyword")}}},
	})
	if err != nil {
		return false, err
	}
	if status/100 != 2 {
		return false, fmt.Errorf("old client: release: %d %v", status, reply)
	}
	return reply["deleted"] == 1.0, nil
}

// MustRelease is Release, but fails if there was no document.
func (l *Lock) MustRelease(ctx context.Context) error {
	found, err := l.Release(ctx)
	if err == nil && !found {
		err = ErrNoEffect
	}
	return err
}

// IsAcquired returns what the program believes, right or wrong.
func (l *Lock) IsAcquired() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.acquired && l.clock().Before(l.expires)
}

// Holds reports whether the last lock that the server granted has not expired.
func (l *Lock) Holds() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.acquired && l.clock().Before(l.granted)
}

// send builds the URL as go-elasticsearch does: it parses the path, and adds the parameters to
// those in it.
func (l *Lock) send(ctx context.Context, path string, parameters url.Values, body any) (int, map[string]any, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return 0, nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+path, bytes.NewReader(text))
	if err != nil {
		return 0, nil, err
	}
	query := req.URL.Query()
	maps.Copy(query, parameters)
	req.URL.RawQuery = query.Encode()
	req.Header.Set("Content-Type", "application/json")
	res, err := l.node.Perform(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, nil, err
	}
	reply := map[string]any{}
	return res.StatusCode, reply, json.Unmarshal(answer, &reply)
}
