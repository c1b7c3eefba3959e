package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/location"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/meters"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/process"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/server"
	"github.com/holdfast-go/holdfast/server/access"
	"github.com/holdfast-go/holdfast/server/audit"
	"github.com/holdfast-go/holdfast/server/budget"
	"github.com/holdfast-go/holdfast/server/dashboard"
	"github.com/holdfast-go/holdfast/server/front"
	"github.com/holdfast-go/holdfast/server/health"
	"github.com/holdfast-go/holdfast/server/history"
	"github.com/holdfast-go/holdfast/server/sight"
)

const (
	// readiness is how long systemd is not told that the server is ready while the store
	// does not answer. Then it is, or else it would kill what waits for the store.
	readiness = 10 * time.Second
	// lastAnswers is how long, at the end, requests may take that are being answered, and
	// lastOpen for how long of that the server still listens.
	lastAnswers, lastOpen = 15 * time.Second, 10 * time.Second
	// lastClose is how long the rest may take after that: it may wait for the store.
	lastClose = 5 * time.Second
)

// Run serves until a signal ends that. It returns nil if the server ended as it should.
func Run(ctx context.Context, c Config) error {
	// A line that nobody reads must not keep a request.
	output.WaitBriefly()
	process.OutlivePipes()
	stops, _ := process.Stops() // to the end of the process: a second one ends it at once
	hangups, _ := process.Hangups()
	r := &running{Config: c, log: logger(c.Store.Hide), meters: meters.New(), budget: budget.New(nil), health: health.New(), underWay: newUnderWay(), failed: make(chan error, 1)}
	err := r.start(ctx)
	if err == nil {
		err = r.until(ctx, stops, hangups)
	}
	return r.end(err, stops)
}

// running is a server that runs, with all that it needs.
type running struct {
	Config
	log      *slog.Logger
	meters   *meters.Meters
	budget   *budget.Budget // of server, pages and front
	store    driver.Store
	server   *server.Server
	health   *health.Log
	pages    *dashboard.Dashboard
	front    *front.Front
	tls      *front.TLS // or nil
	auth     *access.File
	audit    *audit.Log
	history  *history.Log
	looker   *sight.Looker
	underWay *underWay
	http     *http.Server
	failed   chan error // why a listener ended
	hurried  bool       // by a second signal: do not wait for the store, which may not answer
}

// start opens everything and begins to serve.
func (r *running) start(ctx context.Context) error {
	if err := r.open(ctx); err != nil {
		return err
	}
	if r.Certificate != "" {
		var err error
		files := front.TLSFiles{Certificate: r.Certificate, Key: r.Key, ClientCA: r.Clients, Log: r.log}
		if r.tls, err = front.OpenTLS(files); err != nil {
			return exit.Errorf(exit.Failed, "%s", output.Reason(err))
		}
	}
	if err := r.openPages(); err != nil {
		return err
	}
	opts := &front.Options{
		Identify: r.browsers(r.identify()), Hosts: r.Hosts, Proxies: r.proxies, Store: r.server.StoreID, Refused: r.refused,
		Budget: r.budget, Answered: r.meters.Refused, Log: r.log,
	}
	if r.auth != nil {
		opts.Guests = r.isForPages
	}
	var err error
	if r.front, err = front.Handler(r, opts); err != nil {
		return exit.Usagef("--host: %v", err)
	}
	listeners, err := r.listen(ctx, r.tls)
	if err != nil {
		return err
	}
	output.SayEvent("serving", []slog.Attr{slog.String("store", r.Store.Name())}, "serving the locks in %s", r.Store.Title())
	r.serve(r.underWay.counts(r.front), listeners)
	return nil
}

// open opens the files and the store, and makes the server.
func (r *running) open(ctx context.Context) (err error) {
	if r.Auth != "" {
		if r.auth, err = access.OpenFile(r.Auth, r.log); err != nil {
			return exit.Errorf(exit.Failed, "%s", output.Reason(err))
		}
		r.meters.ShowAuthFile(r.auth.Err)
	}
	if r.Audit != "" {
		if r.audit, err = audit.Open(r.Audit, r.log); err != nil {
			return exit.Errorf(exit.Failed, "%s", output.Reason(err))
		}
		r.meters.ShowAudit(r.audit)
	}
	if err := r.openHistory(ctx); err != nil {
		return err
	}
	if r.store, err = r.Store.Driver(ctx); err != nil {
		return err
	}
	r.look()
	r.server, err = server.New(r.store, &server.Options{
		Identify: front.CallerOf, MaxWait: r.MaxWait, Budget: r.budget, Audit: r.keep, History: r.history, Logger: r.log,
		Observer: r.meters.Observer(), Health: r.health, LongestTTL: r.longestTTL(),
	})
	if err != nil {
		return err
	}
	r.meters.ShowServer(r.server.Ready, r.health.Now)
	r.meters.ShowLooks(r.looker.Last)
	return nil
}

// longestTTL returns what tells the longest TTL of the auth file, nil if there is none.
func (r *running) longestTTL() func() (time.Duration, bool) {
	if r.auth == nil {
		return nil
	}
	return r.auth.LongestTTL
}

// identify returns how callers are found out, nil if everybody is a user of this machine.
func (r *running) identify() access.Identify {
	switch {
	case r.auth != nil:
		return r.auth.Identify
	case r.NoAuth:
		return func(*http.Request) (access.Caller, error) { return access.Everybody(), nil }
	}
	return nil
}

// serve answers requests at the listeners, and says where they are.
func (r *running) serve(h http.Handler, listeners []listener) {
	s := front.Server(h, r.log)
	r.http = s
	for _, l := range listeners {
		output.SayEvent("listening", []slog.Attr{slog.String("url", l.url)}, "listening on %s, where %s", l.url, l.who)
		go func() {
			if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				select {
				case r.failed <- err:
				default: // another one has failed before
				}
			}
		}()
	}
}

// until serves until a signal or a failure.
func (r *running) until(ctx context.Context, stops, hangups <-chan os.Signal) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ready := make(chan error, 1)
	go func() { ready <- r.ready(ctx) }()
	for {
		select {
		case err := <-ready:
			if err != nil {
				return err
			}
			ready = nil
		case err := <-r.failed:
			return exit.Errorf(exit.Failed, "the server no longer listens: %v", err)
		case <-hangups:
			r.reopen()
		case sig := <-stops:
			return r.drain(ctx, sig, stops)
		}
	}
}

// ready tells the operator and systemd when the store is prepared. It returns an error if
// the store never will be.
func (r *running) ready(ctx context.Context) error {
	began, told := time.Now(), false
	for {
		err := waitReady(ctx, r.server)
		switch {
		case err == nil:
			output.SayEvent("ready", nil, "ready")
			notify(daemon.SdNotifyReady + "\nSTATUS=serving the locks in " + r.Store.Name())
			return nil
		case ctx.Err() != nil:
			return nil //nolint:nilerr // until has ended for another reason
		case location.Lasting(err):
			return r.Store.Failure(fmt.Errorf("serve: %w", err))
		case !told && time.Since(began) > readiness:
			told = true
			notify(daemon.SdNotifyReady + "\nSTATUS=the store does not answer")
		}
	}
}

// waitReady waits for the store for a moment. Its error is what the store said last.
func waitReady(ctx context.Context, s *server.Server) error {
	ctx, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	err := s.WaitReady(ctx)
	if both, ok := err.(interface{ Unwrap() []error }); ok {
		all := both.Unwrap()
		return all[len(all)-1]
	}
	return err
}

// notify tells systemd, if it has started this process.
func notify(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		output.Say("systemd cannot be told: %v", err)
	}
}

// reopen is for what rotates the audit.
func (r *running) reopen() {
	if r.audit == nil {
		output.Say("HUP opens the file of --audit again, and there is none")
		return
	}
	if err := r.audit.Reopen(); err != nil {
		output.Say("the audit goes on in the file from before: %s", output.Reason(err))
		return
	}
	output.SayEvent("reopened", nil, "opened %s again", r.Audit)
}

// drain ends the server so that its callers can go to another one: first it only says that
// it ends, then it ends waits, and last the connections. A second signal ends it at once.
func (r *running) drain(ctx context.Context, sig os.Signal, stops <-chan os.Signal) error {
	r.server.Drain()
	output.SayEvent("draining", []slog.Attr{slog.String("signal", sig.String())},
		"ending by a signal (%v): for %v /readyz fails and all else goes on, then waits end. A second signal ends at once", sig, r.DrainDelay)
	notify(daemon.SdNotifyStopping)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- r.endWaits(ctx) }()
	select {
	case err := <-done:
		return err
	case sig := <-stops:
		r.hurried = true
		return atOnce(sig)
	}
}

// atOnce is the exit by a signal that does not wait for anything.
func atOnce(sig os.Signal) error {
	return exit.Killed(sig, fmt.Sprintf("ended at once by a second signal (%v); holds end by themselves unless their callers renew them elsewhere", sig))
}

// endWaits ends waits after the delay, and then the connections once they are answered.
func (r *running) endWaits(ctx context.Context) error {
	select {
	case <-time.After(r.DrainDelay):
	case <-ctx.Done():
		return nil
	}
	r.server.EndWaits()
	if r.pages != nil {
		r.pages.Close() // its streams would last
	}
	ctx, cancel := context.WithTimeout(ctx, lastAnswers)
	defer cancel()
	r.lastOpen(ctx)
	if err := r.http.Shutdown(ctx); err != nil {
		_ = r.http.Close()
	}
	output.SayEvent("ended", nil, "ended")
	return nil
}

// end closes all, and returns err. A signal ends that at once.
func (r *running) end(err error, stops <-chan os.Signal) error {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		r.close()
	}()
	timer := time.NewTimer(lastClose)
	defer timer.Stop()
	select {
	case <-closed:
	case <-timer.C:
		output.Say("the store is not closed: it does not answer")
	case sig := <-stops:
		return cmp.Or(err, atOnce(sig))
	}
	return err
}

// lastOpen goes on listening until all is answered that is under way now: holders whose
// connections are new are still served.
func (r *running) lastOpen(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lastOpen)
	defer cancel()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for before := r.underWay.before(); before.Load() > 0; {
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
	}
}

// close closes what start has opened, also of a start that failed.
func (r *running) close() {
	if r.http != nil {
		_ = r.http.Close()
	}
	if r.pages != nil {
		r.pages.Close()
	}
	if r.server != nil && !r.hurried {
		_ = r.server.Close()
	}
	r.closeHistory()
	if r.audit != nil {
		if err := r.audit.Close(); err != nil {
			output.Say("%s", output.Reason(err))
		}
	}
	if r.tls != nil {
		r.tls.Close()
	}
	if r.auth != nil {
		r.auth.Close()
	}
	if r.store != nil && !r.hurried {
		_ = r.store.Close()
	}
}
