package observe

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"weak"

	"github.com/holdfast-go/holdfast"
)

// Options configure an Observer. A nil *Options and the zero value mean the defaults.
type Options struct {
	// Group returns the group of a resource, which becomes a label of each metric. There
	// should be few groups: each costs about sixty time series. For names with slashes return
	// the first part, for example; return the resource itself only if there are few
	// resources. Group may be called concurrently. By default no label has any part of a
	// resource's name.
	Group func(resource string) string
}

// Sample is one value of a metric.
type Sample struct {
	Metric string // the name of the metric
	Label  string // the value of Metric.Label
	Group  string // of the resource
	Value  float64
}

// Observer makes samples of what Clients do. All methods may be called concurrently.
type Observer struct {
	group  func(resource string) string
	record func(context.Context, Sample)

	mu      sync.Mutex
	clients map[weak.Pointer[holdfast.Client]]bool
	groups  map[string]bool // the groups seen so far
}

// New returns an Observer that calls record for each sample of a counter or histogram, with
// the ctx of the caller of Lock. The calls for one Client come one at a time; other calls may
// be concurrent. When a group is first seen, each counter gets a sample of 0 for each value
// of its label, so that a rate includes the first loss.
func New(opts *Options, record func(context.Context, Sample)) *Observer {
	o := &Observer{
		record:  record,
		clients: make(map[weak.Pointer[holdfast.Client]]bool),
		groups:  make(map[string]bool),
	}
	if opts != nil && opts.Group != nil {
		// Group may cut a name within a character, but labels must be UTF-8.
		o.group = func(resource string) string { return strings.ToValidUTF8(opts.Group(resource), "?") }
	} else {
		o.group = func(string) string { return "" }
		o.groupOf("")
	}
	return o
}

// Trace returns the Trace for Options.Trace of each Client to observe. A Trace that wraps it
// must call ClientStart too: without it there are no gauges.
func (o *Observer) Trace() *holdfast.Trace {
	return &holdfast.Trace{
		ClientStart: o.see,
		AttemptEnd: func(ctx context.Context, i holdfast.AttemptInfo) {
			if outcome := Outcome(i.Err); outcome != "" {
				o.add(ctx, Attempt, outcome, i.Resource, i.Took.Seconds())
			}
		},
		WaitEnd: func(ctx context.Context, i holdfast.WaitInfo) {
			if outcome := Outcome(i.Err); outcome != "" {
				o.add(ctx, Wait, outcome, i.Resource, i.Took.Seconds())
			}
		},
		HoldStart: func(ctx context.Context, i holdfast.HoldInfo) context.Context {
			o.add(ctx, Acquires, Granted, i.Hold.Resource(), 1)
			return ctx
		},
		HoldEnd: func(ctx context.Context, i holdfast.HoldInfo) {
			o.add(ctx, Hold, "", i.Hold.Resource(), i.Took.Seconds())
			if cause := Cause(i.Err); cause != "" {
				o.add(ctx, Losses, cause, i.Hold.Resource(), 1)
			}
		},
		Renewed: func(ctx context.Context, i holdfast.CallInfo) {
			o.add(ctx, Renewals, renewal(i.Err), i.Hold.Resource(), 1)
		},
		Released: func(ctx context.Context, i holdfast.CallInfo) {
			o.add(ctx, Releases, Confirmed(i.Err), i.Hold.Resource(), 1)
		},
		Failed: func(ctx context.Context, i holdfast.FailInfo) {
			switch outcome := Outcome(i.Err); {
			case outcome == "", errors.Is(i.Err, holdfast.ErrInvalid), outcome == Unknown && !i.Asked:
				// This says nothing about the store or other clients.
			default:
				o.add(ctx, Acquires, outcome, i.Resource, 1)
			}
		},
	}
}

func (o *Observer) add(ctx context.Context, metric, label, resource string, value float64) {
	o.record(ctx, Sample{Metric: metric, Label: label, Group: o.groupOf(resource), Value: value})
}

// groupOf returns the group of the resource. It starts the counters of a new group at 0.
func (o *Observer) groupOf(resource string) string {
	group := o.group(resource)
	o.mu.Lock()
	known := o.groups[group]
	o.groups[group] = true
	o.mu.Unlock()
	if !known {
		for _, m := range metrics {
			if m.Kind == Counter {
				for _, label := range m.Values {
					o.record(context.Background(), Sample{Metric: m.Name, Label: label, Group: group})
				}
			}
		}
	}
	return group
}

// see notes a Client, without preventing its garbage collection.
func (o *Observer) see(c *holdfast.Client) {
	o.mu.Lock()
	defer o.mu.Unlock()
	w := weak.Make(c)
	o.clients[w] = true
	runtime.AddCleanup(c, o.forget, w)
}

func (o *Observer) forget(c weak.Pointer[holdfast.Client]) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.clients, c)
}

// Gauges returns the present samples of all gauges. They come from the Clients, and are right
// even if no store answers or a Logger hangs. Samples of Left and LeftRatio are absent if no
// hold has a deadline.
func (o *Observer) Gauges() []Sample {
	groups := make(map[string]*present)
	of := func(resource string) *present {
		group := o.group(resource)
		if groups[group] == nil {
			groups[group] = new(present)
		}
		return groups[group]
	}
	o.mu.Lock()
	for group := range o.groups {
		groups[group] = new(present)
	}
	var clients []*holdfast.Client
	for w := range o.clients {
		if c := w.Value(); c != nil {
			clients = append(clients, c)
		}
	}
	o.mu.Unlock()
	for _, c := range clients {
		for _, l := range c.Admin().Live() {
			of(l.Hold.Resource()).hold(l)
		}
		for _, w := range c.Admin().Waiting() {
			of(w.Resource).waiting++
		}
	}
	var samples []Sample
	for _, group := range slices.Sorted(maps.Keys(groups)) {
		samples = append(samples, groups[group].samples(group)...)
	}
	return samples
}

// present is the state of a group.
type present struct {
	held, waiting int
	limited       bool // a hold has a deadline
	left, ratio   float64
}

func (p *present) hold(l holdfast.LiveHold) {
	p.held++
	if !l.KeptAlive || l.Left == holdfast.Forever {
		return // it is to expire, or has no end
	}
	ttl := l.TTL
	if ttl == holdfast.Forever {
		ttl = holdfast.DefaultTTL // the first TTL of a hold that is about to be renewed to Forever
	}
	left, ratio := l.Left.Seconds(), l.Left.Seconds()/ttl.Seconds()
	if !p.limited || left < p.left {
		p.left = left
	}
	if !p.limited || ratio < p.ratio {
		p.ratio = ratio
	}
	p.limited = true
}

func (p *present) samples(group string) []Sample {
	all := []Sample{
		{Metric: Held, Group: group, Value: float64(p.held)},
		{Metric: Waiting, Group: group, Value: float64(p.waiting)},
	}
	if p.limited {
		all = append(all, Sample{Metric: Left, Group: group, Value: p.left},
			Sample{Metric: LeftRatio, Group: group, Value: p.ratio})
	}
	return all
}

// Format implements fmt.Formatter. It writes nothing of the observed events.
func (o *Observer) Format(f fmt.State, _ rune) { fmt.Fprint(f, "observe.Observer") }
