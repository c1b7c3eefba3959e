package adapt_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/adapt"
)

// A process with a fixed lock ID, such as the name of its pod, is killed and started again.
// It waits one TTL: no adapter takes the hold of the killed process for its own.
func TestSameLockIDAfterACrash(t *testing.T) {
	const ttl = 2 * time.Second
	o := &holdfast.LockOptions{LockID: "pod-0", TTL: ttl}
	ran := errors.New("it ran")
	for name, wait := range map[string]func(ctx context.Context, c *holdfast.Client) error{
		"Lead": func(ctx context.Context, c *holdfast.Client) error {
			return adapt.Lead(ctx, c, "r", &adapt.LeadOptions{Lock: o}, func(context.Context) error { return ran })
		},
		"Mutex": func(ctx context.Context, c *holdfast.Client) error {
			m := adapt.NewMutex(ctx, c, "r", &adapt.MutexOptions{Lock: o})
			m.Lock()
			m.Unlock() //nolint:staticcheck // nothing is protected
			return ran
		},
		"Names": func(ctx context.Context, c *holdfast.Client) error {
			n := adapt.NewNames(c, &adapt.NamesOptions{Lock: o})
			if ok, err := n.TryLock(ctx, "r"); ok || err != nil {
				t.Errorf("Names.TryLock: %v, %v", ok, err)
			}
			return errors.Join(n.Lock(ctx, "r"), n.Unlock(ctx, "r"), ran)
		},
		"Migrations": func(ctx context.Context, c *holdfast.Client) error {
			return adapt.NewMigrations(c, "r", o).Migrate(ctx, func(context.Context) error { return ran })
		},
		"Elector": func(ctx context.Context, c *holdfast.Client) error {
			e := adapt.NewElector(c, "r", o)
			for e.IsLeader(ctx) != nil {
				time.Sleep(100 * time.Millisecond)
			}
			return ran
		},
		"Job": func(ctx context.Context, c *holdfast.Client) error {
			var did error
			job := adapt.Job(ctx, c, "r", &adapt.JobOptions{Lock: o, Report: func(err error) {
				var held *holdfast.HeldError
				if !errors.As(err, &held) || held.BySelf {
					t.Errorf("Job: %v", err)
				}
			}}, func(context.Context) { did = ran })
			for did == nil {
				job()
				time.Sleep(100 * time.Millisecond)
			}
			return did
		},
	} {
		inBubble(t, name, func(t *testing.T) {
			restarted, killed := pair(t)
			if _, err := killed.Lock(t.Context(), "r", &holdfast.LockOptions{LockID: "pod-0", TTL: ttl, NoKeepAlive: true}); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			is(t, wait(ctx, restarted), ran)
			if took := time.Since(began); took < ttl || took > ttl+time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}
