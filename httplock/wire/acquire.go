package wire

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"

	"github.com/holdfast-go/holdfast/driver"
)

// AcquireRequest is the body of POST /v1/acquire.
type AcquireRequest struct {
	Resource string `json:"resource"`
	// HoldID names the acquisition, so that the request can be repeated. If it is
	// missing, the server makes one, and releases the hold if the caller hangs up before
	// the answer.
	HoldID driver.HoldID `json:"holdId,omitzero"`
	// LockID defaults to LockIDOf(HoldID).
	LockID string      `json:"lockId,omitempty"`
	Mode   driver.Mode `json:"mode,omitzero"`
	Limit  int         `json:"limit,omitzero"`
	// TTLMs defaults to DefaultTTLMs.
	TTLMs Millis `json:"ttlMs,omitzero"`
	// WaitMs is how long the server waits for the lock before it answers that it is held.
	// The server's own limit, 25 s by default, also applies.
	WaitMs          Millis `json:"waitMs,omitzero"`
	Fair            bool   `json:"fair,omitzero"`
	TakeoverDelayMs Millis `json:"takeoverDelayMs,omitzero"`
	Owner           string `json:"owner,omitempty"`
	Host            string `json:"host,omitempty"`
	Comment         string `json:"comment,omitempty"`
	// PlaceID is driver.AcquireRequest.Place, for callers that wait by repeating the
	// request. It cannot be combined with WaitMs, which has a place of its own.
	PlaceID driver.PlaceID `json:"placeId,omitzero"`
}

// DefaultTTLMs is the TTL of a request without one.
const DefaultTTLMs Millis = 30_000

// LockIDOf is the lock ID of a hold whose request has none: the first 24 hex digits of
// the SHA-256 of the hold ID in its text form, so that all servers use the same.
func LockIDOf(id driver.HoldID) string {
	sum := sha256.Sum256([]byte(id.String()))
	return hex.EncodeToString(sum[:12])
}

// RefOf names a hold without showing its ID: in logs, tickets and answers.
func RefOf(id driver.HoldID) string {
	if id.IsZero() {
		return ""
	}
	sum := sha256.Sum256([]byte(id.String()))
	return hex.EncodeToString(sum[:4])
}

// AcquireRequestOf returns the body for q.
func AcquireRequestOf(q driver.AcquireRequest) AcquireRequest {
	return AcquireRequest{
		Resource: q.Resource, HoldID: q.HoldID, LockID: q.LockID, Mode: q.Mode, Limit: q.Limit,
		TTLMs: MillisOf(q.TTL), Fair: q.Fair, TakeoverDelayMs: MillisOf(q.TakeoverDelay),
		Owner: q.Details.Owner, Host: q.Details.Host, Comment: q.Details.Comment,
		PlaceID: q.Place,
	}
}

// Driver returns the request for the store, with defaults for missing members.
func (r AcquireRequest) Driver() driver.AcquireRequest {
	ref := Ref{LockID: r.LockID, HoldID: r.HoldID}.Driver()
	return driver.AcquireRequest{
		Resource: r.Resource, HoldID: r.HoldID, LockID: ref.LockID, Mode: r.Mode, Limit: r.Limit,
		TTL: cmp.Or(r.TTLMs, DefaultTTLMs).Duration(), TakeoverDelay: r.TakeoverDelayMs.Duration(),
		Details: driver.Details{Owner: r.Owner, Host: r.Host, Comment: r.Comment},
		Place:   r.PlaceID, Fair: r.Fair,
	}
}

// Grant is the answer to a granted acquire.
type Grant struct {
	Resource string        `json:"resource"`
	LockID   string        `json:"lockId"`
	HoldID   driver.HoldID `json:"holdId"`
	Mode     driver.Mode   `json:"mode"`
	Token    uint64        `json:"token"`
	// TTLMs is the time left when the store decided, null if it cannot tell.
	TTLMs *Millis `json:"ttlMs"`
	// SafeForMs is how long the caller may act as holder, from when it sent this very
	// request: the server has subtracted a margin. It is absent if the store cannot tell.
	// The caller must then renew the hold first, and count the TTL from when it sent the
	// renewal.
	SafeForMs *Millis `json:"safeForMs,omitempty"`
}

// GrantOf returns the answer to q.
func GrantOf(q driver.AcquireRequest, g driver.Grant) Grant {
	return Grant{
		Resource: q.Resource, LockID: q.LockID, HoldID: q.HoldID, Mode: q.Mode,
		Token: g.Token, TTLMs: known(g.Left, MillisOf),
	}
}

// Driver returns the answer of the store.
func (g Grant) Driver() driver.Grant { return driver.Grant{Token: g.Token, Left: left(g.TTLMs)} }
