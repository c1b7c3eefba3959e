package httplock_test

import (
	"context"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock"
	"github.com/holdfast-go/holdfast/lab/ask"
	"github.com/holdfast-go/holdfast/lab/faults"
	"github.com/holdfast-go/holdfast/lab/proxy"
	"github.com/holdfast-go/holdfast/lab/thorough"
	"github.com/holdfast-go/holdfast/memlock"
)

// The network between callers and a server fails.
func TestFaults(t *testing.T) {
	thorough.Test(t, "waits for many time-outs")
	faults.Run(t, func(t *testing.T) *faults.Place {
		n, s := proxy.New(t), newSite(t, memlock.New(nil), nil)
		far := "http://" + n.Address(s.url[len("http://"):])
		return &faults.Place{
			Network: n,
			Near:    dialer(s.url, nil),
			Far: func(t *testing.T) driver.Store {
				s := dialer(far, nil)(t).(*httplock.Store)
				if err := s.Init(context.WithoutCancel(t.Context())); err != nil {
					t.Fatal(err)
				}
				// Connected.
				if !ask.Released(t, s, ask.Granted(t, s, ask.Request("prepared", "a")), 0) {
					t.Error("the hold was not there")
				}
				return s
			},
		}
	})
}
