package driver

import (
	"fmt"
	"log/slog"
	"time"
)

// A hold ID is a secret: with it, anybody can renew and release the hold. So package fmt and
// logs do not show hold IDs; only a HoldID itself prints as text. JSON has them, because it
// is written for programs. slog's JSON handler writes values inside of slices and structs as
// JSON too. A request is also printed without its place ID: with it, anybody without a name
// can give up the place at a server.

func printed(f fmt.State, verb rune, shown any) { fmt.Fprintf(f, fmt.FormatString(f, verb), shown) }

// Format implements fmt.Formatter. It writes the ref without the hold ID.
func (r HoldRef) Format(f fmt.State, verb rune) { printed(f, verb, r.shown()) }

// LogValue implements slog.LogValuer. It returns the ref without the hold ID.
func (r HoldRef) LogValue() slog.Value { return slog.AnyValue(r.shown()) }

// shownRef is the printed part of a HoldRef.
type shownRef struct {
	Resource string
	LockID   string
	Token    uint64
}

func (r HoldRef) shown() shownRef { return shownRef{r.Resource, r.LockID, r.Token} }

// Format implements fmt.Formatter. It writes the hold without the hold ID.
func (s Status) Format(f fmt.State, verb rune) { printed(f, verb, s.shown()) }

// LogValue implements slog.LogValuer. It returns the hold without the hold ID.
func (s Status) LogValue() slog.Value { return slog.AnyValue(s.shown()) }

func (s Status) shown() any {
	type shown Status // without methods
	s.HoldID = HoldID{}
	return shown(s)
}

// Format implements fmt.Formatter. It writes the request without its IDs.
func (r AcquireRequest) Format(f fmt.State, verb rune) { printed(f, verb, r.shown()) }

// LogValue implements slog.LogValuer. It returns the request without its IDs.
func (r AcquireRequest) LogValue() slog.Value { return slog.AnyValue(r.shown()) }

func (r AcquireRequest) shown() any {
	type shown AcquireRequest
	r.HoldID, r.Place = HoldID{}, PlaceID{}
	return shown(r)
}

// Format implements fmt.Formatter. It writes the request without the hold ID.
func (r RenewRequest) Format(f fmt.State, verb rune) { printed(f, verb, r.shown()) }

// LogValue implements slog.LogValuer. It returns the request without the hold ID.
func (r RenewRequest) LogValue() slog.Value { return slog.AnyValue(r.shown()) }

func (r RenewRequest) shown() any {
	return struct {
		Hold shownRef
		TTL  time.Duration
	}{r.HoldRef.shown(), r.TTL}
}

// Format implements fmt.Formatter. It writes the request without its IDs.
func (r ReleaseRequest) Format(f fmt.State, verb rune) { printed(f, verb, r.shown()) }

// LogValue implements slog.LogValuer. It returns the request without its IDs.
func (r ReleaseRequest) LogValue() slog.Value { return slog.AnyValue(r.shown()) }

func (r ReleaseRequest) shown() any {
	return struct {
		Hold   shownRef
		After  time.Duration
		Reason string
	}{r.HoldRef.shown(), r.After, r.Reason}
}
