// Package serve runs the server of holdfast serve: its listeners, its start, what signals
// ask for, and its end. What a request may do is decided by the packages of module server.
package serve

import (
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/location"
)

// Port is the one that the server listens on unless it is told another: the keys of a
// telephone that spell HOLD. No system chooses it by itself for a connection, and no service
// that is known to us has it.
const Port = "4653"

// DrainDelay is the default of Config.DrainDelay: some looks of a balancer at /readyz.
const DrainDelay = 10 * time.Second

// Nowhere is the value of Config.Listen for no TCP listener.
const Nowhere = "none"

// Config is what the user asked for.
type Config struct {
	Store   location.Location
	Version string // of the program, for the foot of pages

	// Listen is an address with a port, or Nowhere.
	Listen string
	// Unasked: nobody asked for Listen, so that sockets of systemd replace it.
	Unasked bool
	Unix    string // the path of a socket, or empty

	Auth                      string // the auth file, or empty
	Certificate, Key, Clients string // of TLS, all in PEM
	Plaintext, NoAuth         bool
	Hosts                     []string
	Proxies                   []string // CIDR

	Audit      string // the file, or empty
	History    string // the file, or empty
	MaxWait    time.Duration
	DrainDelay time.Duration

	proxies []netip.Prefix
}

// Validate returns the exit for what cannot be served, or should not be without a word. It
// sends nothing and opens nothing.
func (c *Config) Validate() error {
	host, _, listenErr := net.SplitHostPort(c.Listen)
	switch {
	case (c.Certificate == "") != (c.Key == ""):
		return exit.Usagef("--tls-cert and --tls-key come together")
	case c.Clients != "" && c.Certificate == "":
		return exit.Usagef("--client-ca needs --tls-cert and --tls-key")
	case c.Clients != "" && c.Auth == "":
		return exit.Usagef("--client-ca needs --auth: the file says which certificate is whose, and what it may do")
	case c.Listen == Nowhere && c.Unix == "":
		return exit.Usagef("--listen none needs --unix: the server would listen nowhere")
	case c.Listen != Nowhere && listenErr != nil:
		return exit.Usagef("--listen %q is not an address with a port, such as 127.0.0.1:%s, nor none", c.Listen, Port)
	case c.MaxWait <= 0:
		return exit.Usagef("--max-wait %v is not longer than 0", c.MaxWait)
	case c.DrainDelay < 0:
		return exit.Usagef("--drain-delay %v is negative", c.DrainDelay)
	case len(c.Proxies) > 0 && c.Auth == "" && !c.NoAuth:
		return exit.Usagef("--trusted-proxy needs --auth or --no-auth: without them, what a proxy forwards is refused")
	}
	c.proxies = nil
	for _, text := range c.Proxies {
		p, err := netip.ParsePrefix(text)
		if ip, ipErr := netip.ParseAddr(text); ipErr == nil {
			p, err = ip.Prefix(ip.BitLen())
		}
		if err != nil {
			return exit.Usagef("--trusted-proxy %q is neither an address nor a network such as 10.1.0.0/16", text)
		}
		c.proxies = append(c.proxies, p)
	}
	return c.mayListen("--listen "+c.Listen, c.Listen == Nowhere || isLoopback(host))
}

// mayListen returns the exit for an address that others than the users of this machine reach,
// unless it was said who may come in, and how.
func (c *Config) mayListen(what string, loopback bool) error {
	switch {
	case loopback:
	case c.Certificate == "" && !c.Plaintext:
		return exit.Usagef("%s is reached from other machines: it needs --tls-cert and --tls-key, or --plaintext if "+
			"something before it ends TLS", what)
	case c.Auth == "" && !c.NoAuth:
		return exit.Usagef("%s is reached from other machines: it needs --auth FILE, or --no-auth if everybody "+
			"who reaches it may lock and look", what)
	}
	return nil
}

// isLoopback reports whether an address that the user named is meant to be one of loopback.
// What a name stands for is known once it is bound: see isBoundToLoopback.
func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// isBoundToLoopback reports whether only this machine reaches the address of a listener.
func isBoundToLoopback(at net.Addr) bool {
	tcp, ok := at.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}
