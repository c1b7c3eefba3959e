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

// cases are the faults that keep a caller from the answer. acts: the server does
// what it is asked.
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
	// short is how long a call may take that gets no answer.
	short = 300 * time.Millisecond
	// slack is how much longer it takes on a machine that is busy.
	slack = 10 * time.Second
)

// each runs a test for each operation that the store has.
func (b *bench) each(prefix string, test func(b *bench, far driver.Store, name string, p Prepared)) {
	for name, prepare := range Operations {
		if !can(b.near, name) {
			continue
		}
		b.parallel(prefix+name, func(b *bench) {
			far := b.open(b.Far)
			ask.Granted(b.T, far, ask.Request("first", "a")) // a connection is open
			test(b, far, name, prepare(b.T, b.near, b.Name()))
		})
	}
}

// Whatever becomes of request and reply, the outcome is unknown, the caller waits
// no longer than its context, and a repeat comes to what the call would have.
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

// repeat makes the call again until the outcome is known, and checks it.
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

// A server that cannot be reached, and then can.
func connectionsRefused(b *bench) {
	b.each("", func(b *bench, far driver.Store, _ string, p Prepared) {
		b.Network.Refuse()
		b.unanswered(far, p)
		b.Network.Accept()
		b.repeat(far, p)
	})
}

// What is slow succeeds.
func connectionsSlow(b *bench) {
	b.each("", func(b *bench, far driver.Store, _ string, p Prepared) {
		b.Network.Set(proxy.Slow(30 * time.Millisecond))
		if err := p.Do(b.Context(), far); err != nil {
			b.Error(err)
		}
		p.Check()
	})
}
