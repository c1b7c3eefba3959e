// Package wire is version 1 of the HTTP API of `holdfast serve` in Go types: what requests
// and answers say in JSON, and how strictly they are read. The server and package httplock
// share it. It sends nothing and decides nothing.
//
// Names are those that the command prints with --json. A duration is an integer of
// milliseconds, see Millis; a token is a number below 2^53. A member may be added to an
// answer, none is changed: readers of answers ignore what they do not know. Requests are
// read strictly instead, see Decode: a typo in "limit" is a semaphore without one.
//
// # Definite answers
//
// Between a caller and the server there may be proxies, firewalls and portals that answer
// by themselves. So an answer is definite only if it is complete and as this package writes
// it: JSON with status 200, or a Refusal of a kind of this package, each with the header
// StoreHeader. Anything else, whatever its status, says that the outcome is unknown.
package wire

import "time"

// Headers of requests and answers.
const (
	// StoreHeader is in every answer: the ID of the store of locks behind the server. Two
	// servers with different ones exclude nobody from each other.
	StoreHeader = "Holdfast-Store"
	// TimeoutHeader is how many milliseconds the caller waits for the answer, from when the
	// server has received the request. What the server has not sent to the store by then,
	// it does not send.
	TimeoutHeader = "Holdfast-Timeout-Ms"
)

// Media types.
const (
	JSON        = "application/json"
	NDJSON      = "application/x-ndjson"
	Events      = "text/event-stream"
	ProblemJSON = "application/problem+json"
)

// The paths. Requests that change something are POSTs, the others GETs.
const (
	AcquirePath      = "/v1/acquire"
	RenewPath        = "/v1/renew"
	ReleasePath      = "/v1/release"
	ForceReleasePath = "/v1/force-release"
	SweepPath        = "/v1/sweep"
	HoldsPath        = "/v1/holds"
	WaitersPath      = "/v1/waiters"
	WatchPath        = "/v1/watch"
	HistoryPath      = "/v1/history"
	TraitsPath       = "/v1/traits"
)

// Limits of requests.
const (
	// MaxBody is how many bytes a request has at most.
	MaxBody = 16 << 20
	// MaxBatch is how many holds a renewal or a release has at most.
	MaxBatch = 1000
	// MaxList is how many entries an answer in plain JSON has at most. A stream has no limit.
	MaxList = 10_000
	// DefaultList is how many it has unless the request says otherwise.
	DefaultList = 1000
)

// KeepAlive is the time between two comments in a stream of events. A stream that was silent
// for WatchSilence is broken.
const (
	KeepAlive    = 15 * time.Second
	WatchSilence = 40 * time.Second
)
