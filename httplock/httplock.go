// Package httplock keeps locks in the store behind a `holdfast serve`, over its HTTP API
// (package httplock/wire). The server keeps no lock itself, so any number of servers, and
// programs that reach the store directly, exclude one another.
//
// Importing it registers the URL schemes "https", "http" and "unix":
//
//	https://locks.example.com/base?token_file=/etc/holdfast/token
//	https://locks.example.com:8443?ca=ca.pem&cert=me.pem&key=me.key
//	http://127.0.0.1:4653
//	unix:///run/holdfast/holdfast.sock
//
// Plain HTTP is for this machine only: 127.0.0.0/8, [::1] and localhost. The parameters:
//
//	token_file  a file with the caller's token, which is read again when it changes
//	ca          a file with the certificates, in PEM, that may issue the server's
//	cert, key   files with the caller's certificate and its key, in PEM
//
// If the server does not know a token whose file was changed in the last 5 s, the outcome is
// unknown: it may still have to read its own file. Servers that know both tokens for a while
// make that unnecessary.
//
// Without token_file, the environment variable HOLDFAST_SERVER_TOKEN has the token, if the
// server requires one. (HOLDFAST_TOKEN is the fencing token that `holdfast run` gives to its
// command.) Of https URLs, the environment also configures proxies, as in net/http.
//
// # Answers
//
// A proxy, a firewall or a portal on the way may answer by itself. So only a complete
// answer as package wire describes it has an outcome. After any other, whatever its
// status, the outcome is unknown, and the Client repeats the request. Redirects are not
// followed.
//
// The first answer says by an ID which store is behind the server. If a later one names
// another store, the error is driver.ErrUnusable: two servers behind one name have
// different stores, which would grant a lock twice. What the other store has granted ends by
// its TTL.
//
// # Own holds
//
// A server whose callers have no names shows IDs and tokens of holds to nobody. In lists and
// refusals the Store fills in those of holds that it has acquired or renewed itself, the last
// 10,000 of them, until they are released or lost. Without that, a program could not find its
// own holds in a list. IDs of places are shown to nobody.
//
// # Connections
//
// Requests travel by HTTP/1.1, one at a time on a connection. In HTTP/2 all would share
// a connection that outlives those without an answer: on a path that went silent, they
// would be lost until somebody notices. Renewals have connections apart from those of all
// other requests. If a connection that was used before brings no answer in a third of the
// time that a request has, or breaks, the request is sent once more, on another one, unless
// it is an acquire, of which a late copy could do harm: then the outcome is unknown, and the
// Client repeats it. After a call has returned, nothing is sent.
package httplock

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/wake"
	"github.com/holdfast-go/holdfast/httplock/wire"
)

// ErrDenied is wrapped by the error of what the caller has no right to. Such an error is
// driver.ErrUnusable, too, as for other reasons that only somebody can fix.
var ErrDenied = wire.ErrDenied

// Options change what New does. The zero value is the default.
type Options struct {
	// Token is the caller's secret, which `holdfast token` made; space around it, such as the
	// line end of that, does not count. Without one, and without the parameter token_file, the
	// server sees no token. Both together are an error.
	Token string
	// Transport has the dialer, the proxy and the TLS configuration of the connections.
	// The store uses copies of it, by HTTP/1.1, without compression and without a limit
	// of connections. Proxies get no plain HTTP. Default: http.DefaultTransport, if it is
	// still a *http.Transport.
	Transport *http.Transport
	// Logger gets warnings about wake-ups that fail. Default: nothing is logged.
	Logger *slog.Logger
}

// Store is a driver.Store on a server. All methods may be called concurrently.
type Store struct {
	target   *target
	token    *token
	calls    *lane // of all other requests
	renewals *lane
	sweeps   *lane // with a new connection for each: a sweep may take minutes
	log      *slog.Logger
	watches  sync.Map // the keys are each *wake.Stream that is open
	closed   atomic.Bool
	own      ownHolds

	storeID atomic.Pointer[string]        // of the first answer
	traits  atomic.Pointer[driver.Traits] // of the first Init
}

var (
	_ driver.Store       = (*Store)(nil)
	_ driver.Watcher     = (*Store)(nil)
	_ driver.Queue       = (*Store)(nil)
	_ driver.Initializer = (*Store)(nil)
)

// New returns the store behind the server at the URL, which may have the parameters that
// the package describes. It sends nothing. Its error wraps driver.ErrInvalid, or is that of
// a file that cannot be read. New does not look at HOLDFAST_SERVER_TOKEN.
func New(serverURL string, o *Options) (*Store, error) {
	u, err := driver.ParseURL(serverURL)
	if err != nil {
		return nil, err
	}
	if o == nil {
		o = &Options{}
	}
	return open(u, *o)
}

func open(u *url.URL, o Options) (*Store, error) {
	t, err := parse(u)
	if err != nil {
		return nil, err
	}
	s := &Store{target: t, log: o.Logger}
	s.log = cmp.Or(s.log, slog.New(slog.DiscardHandler))
	if o.Token != "" && t.tokenFile != "" {
		return nil, fail("there is a token in Options.Token and another one in token_file: give one of them")
	}
	if s.token, err = newToken(o.Token, t.tokenFile); err != nil {
		return nil, err
	}
	transport, err := t.transport(o.Transport)
	if err != nil {
		return nil, err
	}
	s.calls, s.renewals, s.sweeps = &lane{Transport: transport}, &lane{Transport: transport.Clone()}, &lane{Transport: transport.Clone()}
	s.sweeps.DisableKeepAlives = true
	return s, nil
}

// Traits returns those of the store behind the server, under the name "http". Before Init
// has succeeded it promises nothing.
func (s *Store) Traits() driver.Traits {
	if t := s.traits.Load(); t != nil {
		return *t
	}
	return driver.Traits{Name: name, Reach: driver.Process, Fencing: driver.FencingNone, Failover: driver.FailoverMayLose}
}

const name = "http"

// Init asks the server for the traits of its store, and so checks that there is a server
// of this version of the API that knows the caller.
func (s *Store) Init(ctx context.Context) error {
	var t wire.Traits
	if err := s.get(ctx, wire.TraitsPath, nil, &t); err != nil {
		return err
	}
	if t.Name == "" || t.Reach == "" || t.Fencing == "" {
		return s.unexpected("its traits are not complete")
	}
	traits := t.Driver()
	traits.Name = name
	traits.Reach = s.target.reach(traits.Reach)
	traits.Fencing = known(traits.Fencing, driver.FencingNone, driver.FencingStrict, driver.FencingClock)
	traits.Failover = known(traits.Failover, driver.FailoverMayLose, driver.FailoverNone, driver.FailoverKeeps)
	s.traits.CompareAndSwap(nil, &traits)
	return nil
}

// known returns what a newer server says, or the weakest if this version does not know it.
func known[T comparable](said, weakest T, others ...T) T {
	if slices.Contains(others, said) {
		return said
	}
	return weakest
}

// Close ends the watches and closes the connections that are not in use.
func (s *Store) Close() error {
	s.closed.Store(true)
	s.watches.Range(func(w, _ any) bool {
		w.(*wake.Stream).Close()
		return true
	})
	s.calls.CloseIdleConnections()
	s.renewals.CloseIdleConnections()
	return nil
}

// unexpected is the error of an answer that is not of the API: the outcome is unknown.
func (s *Store) unexpected(format string, args ...any) error {
	return fmt.Errorf("%s: the answer is not definite: %s", s.target.name, fmt.Sprintf(format, args...))
}

// Format implements fmt.Formatter. It prints no more than what it is.
func (s *Store) Format(f fmt.State, _ rune) { fmt.Fprint(f, "httplock.Store") }

// Format implements fmt.Formatter. It prints the options without the token.
func (o Options) Format(f fmt.State, verb rune) { fmt.Fprintf(f, fmt.FormatString(f, verb), o.shown()) }

// LogValue implements slog.LogValuer. It has the options without the token.
func (o Options) LogValue() slog.Value { return slog.StringValue(fmt.Sprint(o.shown())) }

func (o Options) shown() any {
	type shown Options // without methods
	if o.Token != "" {
		o.Token = "xxxxx"
	}
	return shown(o)
}
