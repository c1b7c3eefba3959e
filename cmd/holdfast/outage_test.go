package main

import (
	"context"
	"errors"
	"net"
	"net/url"
	"os"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/sqlitelock"
)

// withOutages returns main for the command of scripts, which has one more kind of
// store: outage:///PATH is the SQLite file, out of reach while PATH.down
// exists. PATH.refused has a byte for each refusal.
func withOutages(main func()) func() {
	return func() {
		driver.Register("outage", func(ctx context.Context, u *url.URL) (driver.Store, error) {
			if err := outage(u.Path); err != nil {
				return nil, err
			}
			store, err := sqlitelock.Open(ctx, u.Path, nil)
			return outages{store, u.Path}, err
		})
		main()
	}
}

func outage(file string) error {
	if _, err := os.Stat(file + ".down"); err == nil {
		return errors.New("no route to host")
	}
	return nil
}

// outages hides that the store notifies.
type outages struct {
	driver.Store
	file string
}

func (s outages) Acquire(ctx context.Context, q driver.AcquireRequest) (driver.Grant, error) {
	if err := outage(s.file); err != nil {
		return driver.Grant{}, err
	}
	g, err := s.Store.Acquire(ctx, q)
	if errors.Is(err, driver.ErrHeld) {
		if f, openErr := os.OpenFile(s.file+".refused", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); openErr == nil {
			_, _ = f.WriteString("x")
			_ = f.Close()
		}
	}
	return g, err
}

func (s outages) Renew(ctx context.Context, qs []driver.RenewRequest) ([]driver.RenewResult, error) {
	if err := outage(s.file); err != nil {
		return nil, err
	}
	return s.Store.Renew(ctx, qs)
}

func (s outages) Release(ctx context.Context, qs []driver.ReleaseRequest) ([]driver.ReleaseResult, error) {
	if err := outage(s.file); err != nil {
		return nil, err
	}
	return s.Store.Release(ctx, qs)
}

// deaf sets $DEAF to the address of a server that accepts connections and never answers.
func deaf(ts *testscript.TestScript, _ bool, _ []string) {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	ts.Check(err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		var all []net.Conn
		for {
			c, err := listener.Accept()
			if err != nil {
				for _, c := range all {
					_ = c.Close()
				}
				return
			}
			all = append(all, c)
		}
	}()
	ts.Defer(func() {
		_ = listener.Close()
		<-ended
	})
	ts.Setenv("DEAF", listener.Addr().String())
}
