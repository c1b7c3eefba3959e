package driver

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"
)

// sound returns a valid request that spoil has changed.
func sound(spoil func(*AcquireRequest)) AcquireRequest {
	q := AcquireRequest{Resource: "r", LockID: "a", HoldID: HoldID{1}, TTL: time.Second}
	spoil(&q)
	return q
}

func TestAcquireRequestValidate(t *testing.T) {
	long := strings.Repeat("x", MaxName)
	for name, c := range map[string]struct {
		spoil func(*AcquireRequest)
		valid bool
	}{
		"plain":                {func(*AcquireRequest) {}, true},
		"1024 bytes":           {func(q *AcquireRequest) { q.Resource, q.LockID = long, long }, true},
		"1025 bytes":           {func(q *AcquireRequest) { q.Resource = long + "x" }, false},
		"lock ID, 1025 bytes":  {func(q *AcquireRequest) { q.LockID = long + "x" }, false},
		"1024 bytes of emoji":  {func(q *AcquireRequest) { q.Resource = strings.Repeat("🔒", 256) }, true},
		"odd but legal":        {func(q *AcquireRequest) { q.Resource = "a/b.$c \"'\n日本🔒" }, true},
		"empty resource":       {func(q *AcquireRequest) { q.Resource = "" }, false},
		"empty lock ID":        {func(q *AcquireRequest) { q.LockID = "" }, false},
		"NUL":                  {func(q *AcquireRequest) { q.Resource = "a\x00b" }, false},
		"NUL in lock ID":       {func(q *AcquireRequest) { q.LockID = "\x00" }, false},
		"not UTF-8":            {func(q *AcquireRequest) { q.Resource = "a\xff" }, false},
		"a surrogate":          {func(q *AcquireRequest) { q.Resource = "\xed\xa0\x80" }, false},
		"owner with NUL":       {func(q *AcquireRequest) { q.Details.Owner = "\x00" }, false},
		"host not UTF-8":       {func(q *AcquireRequest) { q.Details.Host = "\xc0" }, false},
		"comment, 1025 bytes":  {func(q *AcquireRequest) { q.Details.Comment = long + "x" }, false},
		"no hold ID":           {func(q *AcquireRequest) { q.HoldID = HoldID{} }, false},
		"no such mode":         {func(q *AcquireRequest) { q.Mode = 2 }, false},
		"shared, limit":        {func(q *AcquireRequest) { q.Mode, q.Limit = Shared, 3 }, true},
		"negative limit":       {func(q *AcquireRequest) { q.Mode, q.Limit = Shared, -1 }, false},
		"largest limit":        {func(q *AcquireRequest) { q.Mode, q.Limit = Shared, MaxLimit }, true},
		"limit too large":      {func(q *AcquireRequest) { q.Mode, q.Limit = Shared, math.MaxInt }, false},
		"exclusive, limit":     {func(q *AcquireRequest) { q.Limit = 1 }, false},
		"TTL zero":             {func(q *AcquireRequest) { q.TTL = 0 }, false},
		"TTL negative":         {func(q *AcquireRequest) { q.TTL = -time.Second }, false},
		"TTL 1 ms":             {func(q *AcquireRequest) { q.TTL = time.Millisecond }, true},
		"TTL in part of a ms":  {func(q *AcquireRequest) { q.TTL = 1500 * time.Microsecond }, false},
		"TTL 100 years":        {func(q *AcquireRequest) { q.TTL = MaxTTL }, true},
		"TTL over 100 years":   {func(q *AcquireRequest) { q.TTL = MaxTTL + time.Millisecond }, false},
		"TTL Forever":          {func(q *AcquireRequest) { q.TTL = Forever }, true},
		"delay":                {func(q *AcquireRequest) { q.TakeoverDelay = MaxTTL }, true},
		"delay negative":       {func(q *AcquireRequest) { q.TakeoverDelay = -1 }, false},
		"delay too long":       {func(q *AcquireRequest) { q.TakeoverDelay = Forever }, false},
		"delay in part of ms":  {func(q *AcquireRequest) { q.TakeoverDelay = time.Microsecond }, false},
		"limit beside no mode": {func(q *AcquireRequest) { q.Mode, q.Limit = 7, 1 }, false},
	} {
		t.Run(name, func(t *testing.T) { wantValid(t, sound(c.spoil).Validate(), c.valid) })
	}
}

func wantValid(t *testing.T, err error, valid bool) {
	t.Helper()
	if (err == nil) != valid || err != nil && !errors.Is(err, ErrInvalid) {
		t.Errorf("got %v; want valid: %v", err, valid)
	}
}

func TestRenewAndReleaseValidate(t *testing.T) {
	ref := HoldRef{Resource: "r", LockID: "a"}
	for name, c := range map[string]struct {
		err   error
		valid bool
	}{
		"renew":                 {RenewRequest{HoldRef: ref, TTL: time.Second}.Validate(), true},
		"renew to Forever":      {RenewRequest{HoldRef: ref, TTL: Forever}.Validate(), true},
		"renew for nothing":     {RenewRequest{HoldRef: ref}.Validate(), false},
		"renew nothing":         {RenewRequest{TTL: time.Second}.Validate(), false},
		"large token":           {RenewRequest{HoldRef: HoldRef{Resource: "r", LockID: "a", Token: MaxToken + 1}, TTL: time.Second}.Validate(), false},
		"release":               {ReleaseRequest{HoldRef: ref}.Validate(), true},
		"release later":         {ReleaseRequest{HoldRef: ref, After: time.Second}.Validate(), true},
		"release earlier":       {ReleaseRequest{HoldRef: ref, After: -1}.Validate(), false},
		"release never":         {ReleaseRequest{HoldRef: ref, After: Forever}.Validate(), false},
		"release by force":      {ReleaseRequest{HoldRef: ref, Reason: "stuck"}.Validate(), true},
		"force without UTF-8":   {ReleaseRequest{HoldRef: ref, Reason: "\xff"}.Validate(), false},
		"force later":           {ReleaseRequest{HoldRef: ref, Reason: "stuck", After: time.Second}.Validate(), false},
		"release without names": {ReleaseRequest{HoldRef: HoldRef{Resource: "r"}}.Validate(), false},
	} {
		t.Run(name, func(t *testing.T) { wantValid(t, c.err, c.valid) })
	}
}
