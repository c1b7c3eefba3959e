package sqlitelock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/sqlitelock"
)

// BenchmarkAcquireRelease measures an acquire and a release. The module tests/bench
// compares them with bare transactions.
func BenchmarkAcquireRelease(b *testing.B) {
	s := open(b, newFile(b))
	ctx := context.Background()
	q := driver.AcquireRequest{
		Resource: "resource", LockID: "0123456789abcdef01234567", TTL: time.Minute,
		Details: driver.Details{Owner: "somebody", Host: "machine-1"},
	}
	b.ReportAllocs()
	for b.Loop() {
		q.HoldID = driver.NewHoldID()
		ref, err := acquire(ctx, s, q)
		if err == nil {
			err = release(ctx, s, ref)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

func openAndClose(path string) error {
	ctx := context.Background()
	s, err := sqlitelock.Open(ctx, path, nil)
	if err != nil {
		return err
	}
	ref, err := acquire(ctx, s, request("r", "a", time.Minute))
	if err == nil {
		err = release(ctx, s, ref)
	}
	return errors.Join(err, s.Close())
}

// BenchmarkOpen measures the start of a program.
func BenchmarkOpen(b *testing.B) {
	path := newFile(b)
	open(b, path) // else each close would also move the log into the file
	for b.Loop() {
		if err := openAndClose(path); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkOpenAlone measures the start and end of the only program: its close is a
// checkpoint.
func BenchmarkOpenAlone(b *testing.B) {
	path := newFile(b)
	for b.Loop() {
		if err := openAndClose(path); err != nil {
			b.Fatal(err)
		}
	}
}
