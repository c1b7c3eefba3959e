// Package front is what stands between a network and a server: it refuses what may not come
// in, finds out who sent the rest, and keeps one caller from taking everything. With it come
// the listeners: TLS whose files are replaced while it runs, and a Unix socket that knows the
// user at its other end. It knows no locks, and no rights: see package access.
//
// A handler behind it gets only requests whose Host is a name of the server, that no page of
// another origin sent, and whose caller is known. The name protects from a page that makes
// its own name point to the server's address, the origin from one that just sends requests:
// without them, any page that a user opens could release locks of a server on loopback.
//
// A Front knows the paths of package server: that renewals are counted by themselves, and that
// balancers ask for /healthz without a caller. So in a mux with other things it stands right
// around the server, and inside http.StripPrefix:
//
//	mux.Handle("/api/", http.StripPrefix("/api", handler)) // handler is front.Handler(server, …)
//
// It is not for all of a mux. It refuses each POST that is not JSON, as forms of other pages
// are, and sets a Content-Security-Policy by which pages load nothing, unless the handler
// behind it sets another one, as package dashboard does.
package front

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/holdfast-go/holdfast/httplock/wire"
	"github.com/holdfast-go/holdfast/server/access"
	"github.com/holdfast-go/holdfast/server/budget"
)

// Options are what a Front needs to know. The zero value is that of a server on loopback
// that distinguishes no callers.
type Options struct {
	// Identify finds out who sent a request that did not come through a Unix socket. If it
	// is nil, everybody is access.Everybody, and requests that say that a proxy forwarded
	// them are refused: they are not from this machine.
	Identify access.Identify
	// Guests chooses requests that are also for callers who are not known, and do not say who
	// they are by a token: for a page to sign in, say.
	// What serves them asks CallerOf. Default: none but those that balancers send.
	Guests func(*http.Request) bool
	// Hosts are the names of the server, each with a port or, for all ports, without. A
	// server is also known by the address and port that a connection came to, and on
	// loopback by localhost, 127.0.0.1 and [::1] with the port: no other name can be made
	// to point there.
	Hosts []string
	// Proxies are the addresses of proxies that are believed when they say, in
	// X-Forwarded-For, which address a request came from. It is used for AddressOf, and for
	// the budget of callers without a name.
	Proxies []netip.Prefix
	// Budget is what each caller may do. It is to be that of the handler, too. Default: one
	// of its own.
	Budget *budget.Budget
	// Store returns the ID of the store for wire.StoreHeader, or "" while it is not known.
	Store func() string
	// Refused is told of each request whose caller is not known, and why, but for those of
	// an address that sends more of them than an audit should have. It must not block.
	Refused func(r *http.Request, why error)
	// Answered is told of each refusal: of such a request the handler learns nothing.
	Answered func(wire.Kind)
	// Log gets what an operator has to know.
	Log *slog.Logger
}

// Front is a http.Handler that passes on what may come in. All methods may be called
// concurrently.
type Front struct {
	next    http.Handler
	opts    Options
	hosts   map[string]bool
	origins *http.CrossOriginProtection
	// failed is what addresses may do from which somebody failed to say who he is, and guests
	// what they may do. However many addresses there are, they push no caller out.
	failed, guests *budget.Budget
}

// Handler returns a Front for next.
func Handler(next http.Handler, o *Options) (*Front, error) {
	f := &Front{next: next, hosts: map[string]bool{}, origins: http.NewCrossOriginProtection()}
	if o != nil {
		f.opts = *o
	}
	f.opts.Log = cmp.Or(f.opts.Log, slog.New(slog.DiscardHandler))
	for _, host := range f.opts.Hosts {
		name, err := parseHost(host)
		if err != nil {
			return nil, err
		}
		f.hosts[name] = true
	}
	if f.opts.Budget == nil {
		f.opts.Budget = budget.New(nil)
	}
	f.failed = budget.New(&budget.Options{Rates: map[budget.Flow]budget.Rate{budget.Requests: {PerSecond: failureRate, Most: failureBurst}}})
	f.guests = budget.New(nil)
	return f, nil
}

// An address may send failureBurst requests without a caller at once, and then ten a minute.
const (
	failureBurst = 10
	failureRate  = 10.0 / 60
)

// isOpen reports whether everybody may have what is at the path: balancers ask for it.
func isOpen(path string) bool {
	return path == "/healthz" || path == "/readyz" || path == "/openapi.yaml"
}

// isProbe reports whether the answer says no more than that the server is there. A balancer
// asks for it by an address, or by no name at all.
func isProbe(r *http.Request) bool {
	return r.Method == http.MethodGet && (r.URL.Path == "/healthz" || r.URL.Path == "/readyz")
}

// ServeHTTP implements http.Handler.
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.setHeaders(w.Header())
	boundBody(w, r)
	for _, check := range []func(*http.Request) *refusal{f.checkHost, f.checkForwarded, f.checkOrigin, checkType} {
		if no := check(r); no != nil {
			f.refuse(w, no)
			return
		}
	}
	in := &inbound{address: f.address(r)}
	if isOpen(r.URL.Path) {
		f.next.ServeHTTP(w, in.with(r))
		return
	}
	caller, err := f.identify(r)
	guest := errors.Is(err, access.ErrAnonymous) && r.Header.Get("Authorization") == "" &&
		f.opts.Guests != nil && f.opts.Guests(r)
	if err != nil && !guest {
		f.refuseAnonymous(w, in.with(r), in.address, err)
		return
	}
	in.caller = caller
	if wait, ok := f.mayCome(r, caller, in.address); !ok {
		Pause(r)
		LeaveUnread(w, r)
		f.refuse(w, &refusal{wire.KindBusy, "the caller has used up its share: see the limits of the server", wait})
		return
	}
	f.next.ServeHTTP(w, in.with(r))
}

// The work of a request before that of its handler is known, in microseconds of a core: a
// token that a guest sends is looked for, and told to the audit.
const (
	readWork   = 100
	signInWork = 10_000
)

// mayCome charges a request before anything is done for it. A caller that is not known is
// charged as its address.
func (f *Front) mayCome(r *http.Request, c access.Caller, address string) (wait time.Duration, ok bool) {
	if c == nil {
		work := readWork
		if r.Method == http.MethodPost {
			work = signInWork
		}
		return f.guests.Of(networkOf(address), false).Spend(budget.Reads, float64(work))
	}
	account := Account(f.opts.Budget, c, address, r)
	switch path := r.URL.Path; {
	case path == wire.RenewPath, path == wire.ReleasePath:
		return account.MayRenew()
	case r.Method == http.MethodPost, path == wire.WatchPath, path == wire.TraitsPath:
		return account.Spend(budget.Requests, 1)
	}
	return account.Spend(budget.Reads, readWork)
}

// refusalPause is how long a caller waits that has used up its share, until it is told so.
const refusalPause = 500 * time.Millisecond

// Pause waits before a caller is told that its share is used up. One that comes again at once
// would else make refusals the most work of all.
func Pause(r *http.Request) {
	timer := time.NewTimer(refusalPause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done():
	}
}

// Account returns what the caller of the request is charged to. Who may force everything has
// an account of its own for what an operator does: to look, to force and to sweep.
func Account(b *budget.Budget, c access.Caller, address string, r *http.Request) budget.Account {
	switch r.URL.Path {
	case wire.AcquirePath, wire.RenewPath, wire.ReleasePath, wire.WatchPath, wire.TraitsPath:
		return b.Of(Sender(c, address), false)
	}
	return b.Of(Sender(c, address), c != nil && c.MayAll(access.Force))
}

// identify finds out who sent a request. At a Unix socket it is the user at the other end,
// whatever the request says.
func (f *Front) identify(r *http.Request) (access.Caller, error) {
	if p, ok := peerOf(r); ok {
		return p.caller()
	}
	if f.opts.Identify == nil {
		return access.Everybody(), nil
	}
	c, err := f.opts.Identify(r)
	if err == nil && c == nil {
		err = errors.New("Options.Identify returned no caller and no error")
	}
	return c, err
}

func (f *Front) refuseAnonymous(w http.ResponseWriter, r *http.Request, address string, err error) {
	if !errors.Is(err, access.ErrAnonymous) {
		f.opts.Log.Error("it cannot be found out who sent a request", "error", err)
		f.refuse(w, refused(wire.KindUnknown, "the server cannot find out who sent the request"))
		return
	}
	w.Header().Set("WWW-Authenticate", "Bearer") // also of a 429: to be known is what helps
	// The request was looked at, and would have been served had its caller been known: an
	// address from which others try tokens shuts nobody out.
	if wait, ok := f.failed.Of(networkOf(address), false).Spend(budget.Requests, 1); !ok {
		f.refuse(w, &refusal{wire.KindBusy, err.Error() + "; and too many such requests came from this address", wait})
		return
	}
	if f.opts.Refused != nil {
		f.opts.Refused(r, err)
	}
	f.refuse(w, refused(wire.KindAnonymous, err.Error()))
}

// Failed counts a caller that is not known against its address, as a request with a wrong
// token is counted. It reports whether the address may go on.
// It is for handlers that take tokens in another way than a request's header.
func (f *Front) Failed(r *http.Request) bool {
	_, ok := f.failed.Of(networkOf(AddressOf(r)), false).Spend(budget.Requests, 1)
	return ok
}

// inbound is what is known of a request.
type inbound struct {
	caller  access.Caller
	address string
}

type inboundKey struct{}

func (in *inbound) with(r *http.Request) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), inboundKey{}, in))
}

// CallerOf returns who sent a request that has come through a Front. It is an
// access.Identify.
func CallerOf(r *http.Request) (access.Caller, error) {
	if in, ok := r.Context().Value(inboundKey{}).(*inbound); ok && in.caller != nil {
		return in.caller, nil
	}
	return nil, fmt.Errorf("%w: the request did not come through package front", access.ErrAnonymous)
}

// AddressOf returns where a request came from, for an audit: an IP address, or the user at
// the other end of a Unix socket as "unix:UID".
func AddressOf(r *http.Request) string {
	if in, ok := r.Context().Value(inboundKey{}).(*inbound); ok {
		return in.address
	}
	return remote(r)
}
