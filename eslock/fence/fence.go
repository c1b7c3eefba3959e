// Package fence keeps stale holders of locks from writing to documents of
// Elasticsearch or OpenSearch.
//
// A holder that was stopped, or whose write was delayed, may write after another client
// has acquired its lock. Each acquisition has a larger token than all before it
// (Hold.Token), so the document that the lock protects can refuse such a write: its field
// [Field] has the largest token that it has seen, and this package changes the document
// only if the token of the write is not smaller. Check and change are one scripted
// update, in one request.
//
// A new holder registers its token by [Document.Claim] before it reads the document. From
// then on the document refuses the writes of earlier holders. Without Claim, a late write
// can come between the new holder's read and its write. Read by ID (GET), which returns
// all earlier writes; a search does so only after a refresh.
//
// The lock may be in any store whose tokens rise, see driver.Traits.Fencing. Tokens
// protect what exclusive holds write. They distinguish holders, not the writes of one
// holder: a repeated or late write with the same token takes effect again.
//
// # What the documents need
//
// A document without the field has seen no token, and accepts any. Other programs must
// not change the field. Indexing a document as a whole removes it. So does deleting the
// document, after which a stale holder can create it again: mark a document as deleted
// instead until no holder can be so late.
//
// The server maps Field as long by itself. If the mapping is strict, add the field.
// The server must allow inline Painless scripts in updates, which is its default, and
// the index must keep _source, with Field in it: each request checks whether the
// token is there afterwards, and fails if it is not. Do not rely on ingest pipelines:
// servers run them for some updates only, or for none.
//
// A registered token is as safe as any acknowledged write: it is on all copies in
// sync, and on their disks, unless the index writes its translog later
// (index.translog.durability: async). Such an index can lose a Claim in a crash, and
// so can an index without replicas that loses its disk: then it accepts stale writes.
//
// External versions (version_type=external_gte, with the token as version) protect
// documents that are always written as a whole, without this package. Do not use
// both for one document: every update counts the version up, past the token.
package fence

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/eslock"
	"github.com/holdfast-go/holdfast/eslock/internal/rest"
)

// Field is the field of a protected document that has the largest token seen. The value
// of this field in a caller's document has no effect.
const Field = "fence"

// ErrNotFound means that the document does not exist, and nothing was changed.
var ErrNotFound = errors.New("fence: there is no such document")

//go:embed fence.painless
var script string

// look changes nothing. Its reply has the stored document.
const look = `ctx.op = 'none'`

// maxID is the largest number of bytes in an ID that servers accept.
const maxID = 512

// Document names a document that a lock protects. It may be copied and used
// concurrently.
type Document struct {
	// Client sends the requests. It may send a request more than once.
	Client eslock.Performer
	// Index has the document: an index, or an alias of just one. The server creates a
	// missing index, as for any write, even if it then has no document to update; its
	// setting action.auto_create_index can forbid that.
	Index string
	// ID is the document's ID, 1 to 512 bytes.
	ID string
	// Routing is the document's routing, if it has one. The same ID with another
	// routing is another document, with a token of its own.
	Routing string
	// Refresh says when searches see the write: at the next refresh of the index by
	// default, at once if it is "true", and before the call returns if it is
	// "wait_for".
	Refresh string
}

// Claim registers the token and changes nothing else. It returns holdfast.ErrStale if the
// document has seen a larger one, and ErrNotFound if there is no document. In that case
// begin with a Put: it replaces a document that a stale holder creates.
func (d Document) Claim(ctx context.Context, token uint64) error {
	return d.Update(ctx, struct{}{}, token)
}

// Put creates the document or replaces all of it, and registers the token. encoding/json
// must encode document as an object. The server stores it as it parses it: spaces are
// lost, and fractions have the digits of a float64.
//
// The error is holdfast.ErrStale if the document has seen a larger token,
// holdfast.ErrDamaged if the value of Field is not a token, and holdfast.ErrInvalid if
// the arguments are invalid. In these cases nothing was changed. Any other error means
// that the outcome is unknown. A Put may be repeated.
func (d Document) Put(ctx context.Context, document any, token uint64) error {
	return d.write(ctx, document, token, true)
}

// Update changes a part of an existing document, and registers the token: objects are
// merged, fields that partial lacks stay, and all other fields get their values from
// partial, including null and arrays. It returns the errors of Put, and ErrNotFound.
func (d Document) Update(ctx context.Context, partial any, token uint64) error {
	return d.write(ctx, partial, token, false)
}

// write sends the update until no other update interferes.
//
// A conflict is another write between the server's read and its change. It does not mean
// that the token is stale: the script decides that, and the reply has the result.
func (d Document) write(ctx context.Context, document any, token uint64, whole bool) error {
	body, err := d.request(document, token, whole)
	if err != nil {
		return err
	}
	for try := 1; ; try++ {
		err := d.send(ctx, body, token)
		var refused *rest.Error
		switch {
		case err == nil:
			return nil
		case !errors.As(err, &refused):
		case refused.Type == rest.DocumentMissing:
			err = ErrNotFound
		case refused.Type == rest.Conflict && try < maxTries && rest.Pause(ctx, time.Millisecond<<try) == nil:
			continue
		case refused.Type == rest.Conflict && ctx.Err() != nil:
			err = fmt.Errorf("%w: %w", ctx.Err(), err)
		}
		return fmt.Errorf("fence: index %s, document %q: %w", d.Index, d.ID, err)
	}
}

// request returns the body: a bulk of the update and of a look at the stored document.
// The reply to an update has the document as the script made it, but a mapping may omit a
// field from the stored one. In a bulk, neither the index nor the ID is part of a URL,
// which clients and proxies may interpret in their own way.
func (d Document) request(document any, token uint64, whole bool) ([]byte, error) {
	if err := d.check(token); err != nil {
		return nil, err
	}
	text, err := json.Marshal(document)
	if err != nil {
		return nil, invalid("the document: %v", err)
	}
	if text[0] != '{' {
		return nil, invalid("the document is not an object in JSON")
	}
	type object = map[string]any
	action := object{"_index": d.Index, "_id": d.ID, "retry_on_conflict": onConflict}
	if d.Routing != "" {
		action["routing"] = d.Routing
	}
	source := object{"includes": []string{Field}}
	update := object{
		"_source": source,
		"script": object{"lang": "painless", "source": script, "params": object{
			"token": token, "whole": whole, "document": json.RawMessage(text),
		}},
	}
	if whole {
		update["scripted_upsert"], update["upsert"] = true, object{}
	}
	looking := object{"_source": source, "script": object{"lang": "painless", "source": look}}
	var body bytes.Buffer
	for _, line := range []object{{"update": action}, update, {"update": action}, looking} {
		if err := json.NewEncoder(&body).Encode(line); err != nil { // ends with a line feed
			return nil, invalid("the document: %v", err)
		}
	}
	return body.Bytes(), nil
}

func (d Document) check(token uint64) error {
	switch {
	case token == 0 || token > driver.MaxToken:
		return invalid("%d is not a token", token)
	case d.Client == nil:
		return invalid("no client")
	case d.Index == "":
		return invalid("no index")
	case d.ID == "" || len(d.ID) > maxID:
		return invalid("an ID has 1 to %d bytes, not %d", maxID, len(d.ID))
	case !utf8.ValidString(d.Index + d.ID + d.Routing): // JSON would replace invalid bytes, and so name another document
		return invalid("index, ID or routing is not UTF-8")
	}
	switch d.Refresh {
	case "", "false", "true", "wait_for":
		return nil
	}
	return invalid(`Refresh %q is neither "true" nor "wait_for"`, d.Refresh)
}

func invalid(format string, args ...any) error {
	return fmt.Errorf("fence: %w: %s", holdfast.ErrInvalid, fmt.Sprintf(format, args...))
}
