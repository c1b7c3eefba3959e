package driver

import (
	"fmt"
	"log/slog"
	"time"
)

// Who knows the hold ID of somebody's hold can renew and release it. So nothing that is
// printed with package fmt, or logged, has it: only a HoldID itself prints it. JSON has it,
// because that is written for programs: slog's JSON handler writes what is inside of slices
// and structs of others in that way, too. A request has the ID of its place neither: by it, anybody
// without a name can give up the place at a server.

func printed(f fmt.State, verb rune, shown any) { fmt.Fprintf(f, fmt.FormatString(f, verb), shown) }

// Format implements fmt.Formatter. It prints the ref without its hold ID.
func (r HoldRef) Format(f fmt.State, verb rune) { printed(f, verb, r.shown()) }

// LogValue implements slog.LogValuer. It has the ref without its hold ID.
func (r HoldRef) LogValue() slog.Value { return slog.AnyValue(r.shown()) }

// shownRef is a HoldRef as it is printed.
type shownRef struct {
	Resource string
	LockID   string
	Token    uint64
}

func (r HoldRef) shown() shownRef { return shownRef{r.Resource, r.LockID, r.Token} }

// Format implements fmt.Formatter. It prints the hold without its hold ID.
func (s Status) Format(f fmt.State, verb rune) { printed(f, verb, s.shown()) }

// LogValue implements slog.LogValuer. It has the hold without its hold ID.
func (s Status) LogValue() slog.Value { return slog.AnyValue(s.shown()) }

func (s Status) shown() any {
	type shown Status // without methods
	s.HoldID = HoldID{}
	return shown(s)
}

// Format implements fmt.Formatter. It prints the request without its IDs.
func (r AcquireRequest) Format(f fmt.State, verb rune) { printed(f, verb, r.shown()) }

// LogValue implements slog.LogValuer. It has the request without its IDs.
func (r AcquireRequest) LogValue() slog.Value { return slog.AnyValue(r.shown()) }

func (r AcquireRequest) shown() any {
	type shown AcquireRequest
	r.HoldID, r.Place = HoldID{}, PlaceID{}
	return shown(r)
}

// Format implements fmt.Formatter. It prints the request without its hold ID.
func (r RenewRequest) Format(f fmt.State, verb rune) { printed(f, verb, r.shown()) }

// LogValue implements slog.LogValuer. It has the request without its hold ID.
func (r RenewRequest) LogValue() slog.Value { return slog.AnyValue(r.shown()) }

func (r RenewRequest) shown() any {
	return struct {
		Hold shownRef
		TTL  time.Duration
	}{r.HoldRef.shown(), r.TTL}
}

// Format implements fmt.Formatter. It prints the request without its hold ID.
func (r ReleaseRequest) Format(f fmt.State, verb rune) { printed(f, verb, r.shown()) }

// LogValue implements slog.LogValuer. It has the request without its hold ID.
func (r ReleaseRequest) LogValue() slog.Value { return slog.AnyValue(r.shown()) }

func (r ReleaseRequest) shown() any {
	return struct {
		Hold   shownRef
		After  time.Duration
		Reason string
	}{r.HoldRef.shown(), r.After, r.Reason}
}
