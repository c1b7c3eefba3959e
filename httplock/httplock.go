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
// Plain HTTP is allowed only to this machine: 127.0.0.0/8, [::1] and localhost. The
// parameters are:
//
//	token_file  a file with the caller's token, which is read again when it changes
//	ca          a PEM file of certificate authorities that may issue the server's certificate
//	cert, key   PEM files with the caller's certificate and its key
//
// If the token file was changed in the last 5 s and the server does not know the token,
// the outcome is unknown: the server may still have to read its own file. That does not
// happen if the server accepts both tokens for a while.
//
// Without token_file, the token is in the environment variable HOLDFAST_SERVER_TOKEN, if
// the server requires one. (HOLDFAST_TOKEN is the fencing token that `holdfast run` gives
// to its command.) For https URLs, the environment also configures proxies, as in
// net/http.
//
// # Answers
//
// A proxy, a firewall or a portal on the way may answer by itself. So only a complete
// answer as package wire describes it has an outcome. After any other answer, whatever
// its status, the outcome is unknown, and the Client repeats the request. Redirects are
// not followed.
//
// The first answer has the ID of the store behind the server. If a later answer has the
// ID of another store, the error is driver.ErrUnusable: two servers behind one name have
// different stores, which would grant a lock twice. The grants of the other store end by
// their TTL.
//
// # Own holds
//
// A server whose callers have no names shows nobody the IDs and tokens of holds. In lists
// and refusals the Store adds them to holds that it has acquired or renewed itself, up to
// 20,000 of them, until they are released or lost. Otherwise a program could not
// find its own holds in a list. IDs of places are never shown.
//
// # Connections
//
// Requests use HTTP/1.1, one at a time on a connection. In HTTP/2 all would share a
// connection that stays open without answers: on a path that went silent, they would be
// lost until somebody notices. Renewals have connections of their own. If a reused
// connection brings no answer in a third of the time that a request has, or breaks, the
// request is sent once more, on another connection. An acquire is not, because a late
// copy could do harm: then the outcome is unknown, and the Client repeats it. After a
// call has returned, nothing is sent.
package httplock

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock/wire"
)

// ErrDenied is wrapped by errors about a missing right of the caller. Such an error is
// also driver.ErrUnusable, because somebody has to fix the cause.
var ErrDenied = wire.ErrDenied

// Options are the optional settings of New. The zero value has the defaults.
type Options struct {
	// Token is the caller's secret from `holdfast token`. Space around it, such as the
	// line end of the command's output, is ignored. Without Token and the parameter
	// token_file, no token is sent. Setting both is an error.
	Token string
	// Transport has the dialer, the proxy and the TLS configuration of the connections.
	// The store uses copies of it, with HTTP/1.1, without compression and without a limit
	// on connections. Plain HTTP uses no proxy. Default: http.DefaultTransport, if it is
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
	sweeps   *lane // a new connection for each: a sweep may take minutes
	log      *slog.Logger
	own      ownHolds
	open     context.Context // ends with Close, and with it all watches
	close    context.CancelFunc

	storeID atomic.Pointer[string]        // in the first answer
	traits  atomic.Pointer[driver.Traits] // from the first Init
}

var (
	_ driver.Store       = (*Store)(nil)
	_ driver.Watcher     = (*Store)(nil)
	_ driver.Queue       = (*Store)(nil)
	_ driver.Initializer = (*Store)(nil)
)

// New returns the store behind the server at the URL, which may have the parameters that
// the package documentation lists. It sends nothing. Its error wraps driver.ErrInvalid,
// or is that of a file that cannot be read. New ignores HOLDFAST_SERVER_TOKEN.
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
	s := &Store{target: t, log: cmp.Or(o.Logger, slog.New(slog.DiscardHandler))}
	s.open, s.close = context.WithCancel(context.Background())
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

// Traits returns the traits of the store behind the server, under the name "http". They
// promise nothing before Init has succeeded.
func (s *Store) Traits() driver.Traits {
	if t := s.traits.Load(); t != nil {
		return *t
	}
	return driver.Traits{Name: name, Reach: driver.Process, Fencing: driver.FencingNone, Failover: driver.FailoverMayLose}
}

const name = "http"

// Init asks the server for the traits of its store. So it checks that there is a server
// with this version of the API that knows the caller.
func (s *Store) Init(ctx context.Context) error {
	var t wire.Traits
	if err := s.call(ctx, s.calls, message{path: wire.TraitsPath}, nil, &t); err != nil {
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

// known returns a value from the server, or the weakest if this version does not know it.
func known[T comparable](said, weakest T, others ...T) T {
	if slices.Contains(others, said) {
		return said
	}
	return weakest
}

// Close ends the watches and closes idle connections.
func (s *Store) Close() error {
	s.close()
	s.calls.CloseIdleConnections()
	s.renewals.CloseIdleConnections()
	return nil
}

// unexpected returns the error of an answer that does not follow the API. The outcome is
// unknown.
func (s *Store) unexpected(format string, args ...any) error {
	return fmt.Errorf("%s: the answer is not definite: %s", s.target.name, fmt.Sprintf(format, args...))
}

// Format implements fmt.Formatter. It prints only the name of the type.
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
