package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/coreos/go-systemd/v22/activation"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/server/front"
)

// listener is one of the server's, with what the operator is told of it.
type listener struct {
	net.Listener
	url string
	who string // comes in there, and may do what
}

// listen opens the listeners: from the flags and from systemd.
func (c *Config) listen(ctx context.Context, secure *tls.Config) (all []listener, err error) {
	defer func() {
		if err != nil {
			for _, l := range all {
				_ = l.Close() // nothing was served yet
			}
			all = nil
		}
	}()
	inherited, err := activation.Listeners()
	if err != nil {
		return nil, exit.Errorf(exit.Failed, "the sockets of systemd cannot be used: %v", err)
	}
	for _, l := range inherited {
		if l == nil {
			return all, exit.Errorf(exit.Failed, "one of the sockets of systemd is no listener: it needs ListenStream=")
		}
		next, err := c.inherit(l, secure)
		if err != nil {
			return all, err
		}
		all = append(all, next)
	}
	if c.Listen != Nowhere && (!c.Unasked || len(inherited) == 0) {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.Listen)
		if err != nil {
			return all, exit.Errorf(exit.Failed, "cannot listen: %v. Choose another address with --listen", err)
		}
		if err := c.checkBound(l.Addr()); err != nil {
			return all, errors.Join(err, l.Close())
		}
		all = append(all, c.tcp(l, secure))
	}
	if c.Unix != "" {
		l, err := front.ListenUnix(c.Unix)
		if err != nil {
			return all, exit.Errorf(exit.Failed, "cannot listen: %v", err)
		}
		all = append(all, socket(l))
	}
	return all, nil
}

// checkBound checks the address that --listen has come to: a name may stand for another one
// than it seems to, as localhost does where a file or a server of names says so. Nobody has
// been served there.
func (c *Config) checkBound(at net.Addr) error {
	return c.mayListen(fmt.Sprintf("--listen %s, which is %v,", c.Listen, at), isBoundToLoopback(at))
}

// inherit checks a socket of systemd as an address of the user.
func (c *Config) inherit(l net.Listener, secure *tls.Config) (listener, error) {
	switch at := l.Addr().(type) {
	case *net.UnixAddr:
		return socket(l), nil
	case *net.TCPAddr:
		if err := c.mayListen("the socket "+at.String()+" of systemd", isBoundToLoopback(at)); err != nil {
			return listener{}, errors.Join(err, l.Close())
		}
		return c.tcp(l, secure), nil
	}
	return listener{}, errors.Join(exit.Errorf(exit.Failed, "the socket %v of systemd is neither TCP nor a Unix socket", l.Addr()), l.Close())
}

// tcp returns the listener, with TLS if there is a configuration for it.
func (c *Config) tcp(l net.Listener, secure *tls.Config) listener {
	scheme := "http"
	if secure != nil {
		scheme = "https"
		l = tls.NewListener(l, secure)
	}
	return listener{l, scheme + "://" + l.Addr().String(), c.who(l.Addr())}
}

// who says who comes in at an address.
func (c *Config) who(at net.Addr) string {
	switch {
	case c.Auth != "":
		return "the callers in " + c.Auth + " may do what it says"
	case isBoundToLoopback(at) && !c.NoAuth:
		return "every user of this machine may lock and look"
	default:
		return "everybody who reaches it may lock and look (--no-auth)"
	}
}

// socket returns a Unix socket. Its users are known to the system, so there is no TLS.
func socket(l net.Listener) listener {
	path := l.Addr().String()
	at := "unix://" + path
	if abs, err := filepath.Abs(path); err == nil && !strings.HasPrefix(path, "@") { // an abstract one has no folder
		at = (&url.URL{Scheme: "unix", Path: abs}).String() // as --store takes it
	}
	return listener{l, at, "root and the user of this server may do everything"}
}
