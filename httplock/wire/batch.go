package wire

import (
	"cmp"

	"github.com/holdfast-go/holdfast/driver"
)

// Ref names one hold in a batch.
type Ref struct {
	Resource string        `json:"resource"`
	LockID   string        `json:"lockId,omitempty"` // default: LockIDOf(HoldID)
	HoldID   driver.HoldID `json:"holdId,omitzero"`
	Token    uint64        `json:"token,omitzero"` // 0: unknown
}

// RefOfHold returns the Ref of a hold.
func RefOfHold(h driver.HoldRef) Ref { return Ref(h) }

// Driver returns the ref for the store.
func (r Ref) Driver() driver.HoldRef {
	if r.LockID == "" && !r.HoldID.IsZero() {
		r.LockID = LockIDOf(r.HoldID)
	}
	return driver.HoldRef(r)
}

// Batch is the body of a request for several holds.
type Batch[Item any] struct {
	Holds []Item `json:"holds,omitzero" most:"1000"` // MaxBatch
}

type (
	// RenewRequest is the body of POST /v1/renew.
	RenewRequest = Batch[Renewal]
	// ReleaseRequest is the body of POST /v1/release.
	ReleaseRequest = Batch[Release]
)

// BatchAnswer is the answer to a Batch: a result for each hold, in order.
type BatchAnswer[Result any] struct {
	Results []Result `json:"results"`
}

type (
	// RenewAnswer is the answer to a renewal.
	RenewAnswer = BatchAnswer[RenewResult]
	// ReleaseAnswer is the answer to a release.
	ReleaseAnswer = BatchAnswer[ReleaseResult]
)

// Renewal extends one hold. It needs a hold ID.
type Renewal struct {
	Ref
	TTLMs Millis `json:"ttlMs,omitzero"` // default: DefaultTTLMs
}

// RenewalOf returns the item for q.
func RenewalOf(q driver.RenewRequest) Renewal {
	return Renewal{Ref: RefOfHold(q.HoldRef), TTLMs: MillisOf(q.TTL)}
}

// Driver returns the request for the store.
func (r Renewal) Driver() driver.RenewRequest {
	return driver.RenewRequest{HoldRef: r.Ref.Driver(), TTL: cmp.Or(r.TTLMs, DefaultTTLMs).Duration()}
}

// Release ends a hold, gives up a place in a queue, or does both. It needs at least one
// of the two IDs.
type Release struct {
	Ref
	PlaceID driver.PlaceID `json:"placeId,omitzero"`
	AfterMs Millis         `json:"afterMs,omitzero"` // driver.ReleaseRequest.After
}

// ReleaseOf returns the item for q.
func ReleaseOf(q driver.ReleaseRequest) Release {
	return Release{Ref: RefOfHold(q.HoldRef), PlaceID: q.Place, AfterMs: MillisOf(q.After)}
}

// Driver returns the request for the store. A request that only gives up a place needs no
// lock ID, but the store wants one: Driver sets one that nobody has.
func (r Release) Driver() driver.ReleaseRequest {
	q := driver.ReleaseRequest{HoldRef: r.Ref.Driver(), Place: r.PlaceID, After: r.AfterMs.Duration()}
	if q.LockID == "" && !q.Place.IsZero() {
		q.LockID = q.Place.String()
	}
	return q
}

// ForceRequest is the body of POST /v1/force-release: a release of anybody's hold. It
// needs the hold's token, so that a request that a proxy repeats never ends the hold of a
// successor.
type ForceRequest struct {
	Ref
	// Reason is written to the audit log.
	Reason string `json:"reason"`
}

// Outcome is the outcome of an item of a batch.
type Outcome string

// The outcomes. Unknown means that the item may be applied, now or later.
const (
	Renewed     Outcome = "renewed"
	Released    Outcome = "released"
	Lost        Outcome = "lost"
	Unknown     Outcome = "unknown"
	Invalid     Outcome = "invalid"
	Denied      Outcome = "denied"
	Damaged     Outcome = "damaged"
	Unusable    Outcome = "unusable"
	Unsupported Outcome = "unsupported"
)

// RenewResult is the outcome for one hold.
type RenewResult struct {
	// HoldID is the hold ID of the request. By it the caller knows to which item a result
	// belongs, even if answers were mixed up on the way.
	HoldID  driver.HoldID `json:"holdId,omitzero"`
	Outcome Outcome       `json:"outcome"`
	TTLMs   *Millis       `json:"ttlMs,omitempty"`
	// SafeForMs is like that of a Grant, from when this request was sent.
	SafeForMs *Millis `json:"safeForMs,omitempty"`
	Waiters   int     `json:"waiters,omitzero"`
	Detail    string  `json:"detail,omitempty"`
}

// RenewResultOf returns the result of the item for JSON, with the detail of its error,
// which must already be fit for callers.
func RenewResultOf(item Renewal, r driver.RenewResult) RenewResult {
	if r.Err != nil {
		return RenewResult{HoldID: item.HoldID, Outcome: OutcomeOf(r.Err), Detail: r.Err.Error()}
	}
	return RenewResult{HoldID: item.HoldID, Outcome: Renewed, TTLMs: known(r.Left, MillisOf), Waiters: r.Waiters}
}

// Driver returns the answer of the store.
func (r RenewResult) Driver() driver.RenewResult {
	if r.Outcome != Renewed {
		return driver.RenewResult{Left: driver.Unknown, Err: r.Outcome.err(r.Detail)}
	}
	return driver.RenewResult{Left: left(r.TTLMs), Waiters: r.Waiters}
}

// ReleaseResult is the outcome for one hold, and the answer to a forced release.
type ReleaseResult struct {
	// HoldID and PlaceID are the IDs of the request, see RenewResult.
	HoldID  driver.HoldID  `json:"holdId,omitzero"`
	PlaceID driver.PlaceID `json:"placeId,omitzero"`
	Outcome Outcome        `json:"outcome"`
	Found   bool           `json:"found"` // the hold existed
	Remains bool           `json:"remains,omitzero"`
	Detail  string         `json:"detail,omitempty"`
}

// ReleaseResultOf returns the result of the item for JSON, as RenewResultOf does.
func ReleaseResultOf(item Release, r driver.ReleaseResult) ReleaseResult {
	of := ReleaseResult{HoldID: item.HoldID, PlaceID: item.PlaceID}
	if r.Err != nil {
		of.Outcome, of.Detail = OutcomeOf(r.Err), r.Err.Error()
		return of
	}
	of.Outcome, of.Found, of.Remains = Released, r.Found, r.Remains
	return of
}

// Driver returns the answer of the store.
func (r ReleaseResult) Driver() driver.ReleaseResult {
	if r.Outcome != Released {
		return driver.ReleaseResult{Err: r.Outcome.err(r.Detail)}
	}
	return driver.ReleaseResult{Found: r.Found, Remains: r.Remains}
}

// SweepRequest is the body of POST /v1/sweep.
type SweepRequest struct {
	// IdleMs is DefaultIdleMs if it is left out.
	IdleMs *Millis `json:"idleMs,omitempty"`
	Most   int     `json:"most,omitzero"` // 0: no limit
}

// SweepAnswer says what a sweep removed.
type SweepAnswer struct {
	Holds   int  `json:"holds"`
	Records int  `json:"records"`
	More    bool `json:"more"`
}

// DefaultIdleMs is a day, as in sweeps by the command and by Clients.
const DefaultIdleMs Millis = 24 * 60 * 60 * 1000

// Driver returns the request for the store.
func (r SweepRequest) Driver() driver.SweepRequest {
	idle := DefaultIdleMs
	if r.IdleMs != nil {
		idle = *r.IdleMs
	}
	return driver.SweepRequest{Idle: min(idle.Duration(), driver.MaxTTL), Most: r.Most}
}

// SweepRequestOf returns the body for q. Durations are whole milliseconds, rounded so
// that the store deletes nothing too early, and 1 at least: the server refuses 0.
func SweepRequestOf(q driver.SweepRequest) SweepRequest {
	idle := MillisUp(min(cmp.Or(q.Idle, 1), driver.MaxTTL))
	return SweepRequest{IdleMs: &idle, Most: q.Most}
}
