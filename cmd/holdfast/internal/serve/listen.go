package serve

import (
	"context"
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

// listen opens the listeners: from systemd and from the flags.
func (c *Config) listen(ctx context.Context, secure *front.TLS) (all []listener, err error) {
	opened, err := activation.Listeners()
	if err != nil {
		return nil, exit.Errorf(exit.Failed, "the sockets of systemd cannot be used: %v", err)
	}
	inherited := len(opened)
	defer func() {
		for _, l := range opened {
			if l != nil && err != nil {
				_ = l.Close() // nothing was served yet
			}
		}
	}()
	if c.Listen != Nowhere && (!c.Unasked || inherited == 0) {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.Listen)
		if err != nil {
			return nil, exit.Errorf(exit.Failed, "cannot listen: %v. Choose another address with --listen", err)
		}
		opened = append(opened, l)
	}
	if c.Unix != "" {
		l, err := front.ListenUnix(c.Unix)
		if err != nil {
			return nil, exit.Errorf(exit.Failed, "cannot listen: %v", err)
		}
		opened = append(opened, l)
	}
	for i, l := range opened {
		named := "--listen " + c.Listen
		if i < inherited {
			named = "a socket of systemd"
		}
		next, err := c.listener(l, named, secure)
		if err != nil {
			return nil, err
		}
		all = append(all, next)
	}
	return all, nil
}

// listener returns the listener, with TLS if it needs that. What is checked is the address that
// it is bound to: a name may stand for another one than it seems to, as localhost does where a
// file or a server of names says so.
func (c *Config) listener(l net.Listener, named string, secure *front.TLS) (listener, error) {
	if l == nil {
		return listener{}, exit.Errorf(exit.Failed, "one of the sockets of systemd is no listener: it needs ListenStream=")
	}
	at := l.Addr()
	switch at.(type) {
	case *net.UnixAddr: // whose users are known to the system, so there is no TLS
		where := "unix://" + at.String()
		if abs, err := filepath.Abs(at.String()); err == nil && !strings.HasPrefix(at.String(), "@") { // an abstract one has no folder
			where = (&url.URL{Scheme: "unix", Path: abs}).String() // as --store takes it
		}
		return listener{l, where, "root and the user of this server may do everything"}, nil
	case *net.TCPAddr:
		if err := c.mayListen(fmt.Sprintf("%s, which is %v,", named, at), isBoundToLoopback(at)); err != nil {
			return listener{}, err
		}
		if secure != nil {
			return listener{secure.Listener(l), "https://" + at.String(), c.who(at)}, nil
		}
		return listener{l, "http://" + at.String(), c.who(at)}, nil
	}
	return listener{}, exit.Errorf(exit.Failed, "the socket %v of systemd is neither TCP nor a Unix socket", at)
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
