package faults

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/lab/ask"
	"github.com/holdfast-go/holdfast/lab/proxy"
)

var connections = []subtest{
	{"operations_meet_faults", operationsMeetFaults},
	{"connections_refused", connectionsRefused},
	{"connections_slow", connectionsSlow},
}

// cases are the faults that keep the answer from the caller. If acts, the server handles the
// request.
var cases = map[string]struct {
	fault proxy.Fault
	acts  bool
}{
	"request cut":     {proxy.CutRequests, false},
	"reply cut":       {proxy.CutReplies, true},
	"requests vanish": {proxy.VanishRequests, false},
	"replies vanish":  {proxy.VanishReplies, true},
	"silence":         {proxy.Silence, false},
}

const (
	// short is the time-out of a call that gets no answer.
	short = 300 * time.Millisecond
	// slack is the additional time of such a call on a busy machine.
	slack = 10 * time.Second
)

// each runs a test for each operation that the store has.
func (b *bench) each(prefix string, test func(b *bench, far driver.Store, name string, p Prepared)) {
	for name, prepare := range Operations {
		if !supports(b.near, name) {
			continue
		}
		b.parallel(prefix+name, func(b *bench) {
			far := b.open(b.Far)
			ask.Granted(b.T, far, ask.Request("first", "a")) // opens a connection
			test(b, far, name, prepare(b.T, b.near, b.Name()))
		})
	}
}

// Whatever happens to request and reply, the outcome is unknown, the call returns when its
// context ends, and a repeat has the result that the call would have had.
func operationsMeetFaults(b *bench) {
	for fault, c := range cases {
		b.each(fault+"/", func(b *bench, far driver.Store, name string, p Prepared) {
			b.Network.Set(c.fault)
			b.unanswered(far, p)
			switch {
			case p.Done == nil:
			case c.acts:
				b.eventually("the server has acted", p.Done)
			case name != "acquire that is refused" && p.Done():
				b.Error("the server has acted on a request that was lost")
			}
			b.Network.Set(proxy.Fault{})
			b.repeat(far, p)
		})
	}
}

// unanswered makes the call, which gets no answer.
func (b *bench) unanswered(s driver.Store, p Prepared) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), short)
	defer cancel()
	began := time.Now()
	MustBeUnknown(b.T, p.Do(ctx, s))
	if took := time.Since(began); took > short+slack {
		b.Errorf("took %v, the context ended after %v", took, short)
	}
}

// repeat repeats the call until the outcome is known, and checks it.
func (b *bench) repeat(s driver.Store, p Prepared) {
	b.Helper()
	b.eventually("the outcome is known", func() bool {
		err := p.Do(b.Context(), s)
		if err != nil {
			MustBeUnknown(b.T, err)
		}
		return err == nil
	})
	p.Check()
}

// The server refuses connections for a while.
func connectionsRefused(b *bench) {
	b.each("", func(b *bench, far driver.Store, _ string, p Prepared) {
		b.Network.Refuse()
		b.unanswered(far, p)
		b.Network.Accept()
		b.repeat(far, p)
	})
}

// Slow calls succeed.
func connectionsSlow(b *bench) {
	b.each("", func(b *bench, far driver.Store, _ string, p Prepared) {
		b.Network.Set(proxy.Slow(30 * time.Millisecond))
		if err := p.Do(b.Context(), far); err != nil {
			b.Error(err)
		}
		p.Check()
	})
}
