// Package wire is version 1 of the HTTP API of `holdfast serve` in Go types: the JSON of
// requests and answers. The server and package httplock share it. It sends nothing and
// decides nothing.
//
// Names are the same as in the command's --json output. A duration is an integer of
// milliseconds, see Millis; a token is a number below 2^53. Members may be added to
// answers but never change: readers of answers ignore unknown members. Requests are read
// strictly: with a typo in "limit", a semaphore would have no limit.
//
// # Definite answers
//
// Between a caller and the server there may be proxies, firewalls and portals that answer
// by themselves. So an answer is definite only if it is complete and as this package
// writes it: JSON with status 200, or a Refusal of a kind of this package, each with the
// header StoreHeader. Any other answer, whatever its status, means that the outcome is
// unknown.
package wire

import "time"

// Headers of requests and answers.
const (
	// StoreHeader is in every answer: the ID of the store of locks behind the server.
	// Locks of servers with different IDs do not exclude one another.
	StoreHeader = "Holdfast-Store"
	// TimeoutHeader is how many milliseconds the caller waits for the answer, from when
	// the server has received the request. After that time, the server sends nothing more
	// to the store for this request.
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
	// MaxBody is the largest number of bytes in a request.
	MaxBody = 16 << 20
	// MaxBatch is the largest number of holds in a renewal or a release.
	MaxBatch = 1000
	// MaxList is the largest number of entries in an answer in plain JSON. A stream has
	// no limit.
	MaxList = 10_000
	// DefaultList is that number unless the request sets it.
	DefaultList = 1000
)

// KeepAlive is the time between two comments in a stream of events. A stream that is
// silent for WatchSilence is broken.
const (
	KeepAlive    = 15 * time.Second
	WatchSilence = 40 * time.Second
)
