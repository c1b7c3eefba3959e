// Package hosts makes hosts in small: network namespaces with an address each, and one
// more that routes between them and can drop what one of them sends to another. They
// are machines as far as the network is concerned, and nothing else is.
//
// It needs Linux, the command ip and the rights of root.
package hosts

import (
	"net"
	"testing"
)

// Network is some hosts.
type Network struct {
	router string // the name of its namespace
	hosts  map[string]*Host
}

// Host is one of them.
type Host struct {
	Address   string
	namespace string
	link      string // to it, on the router
}

// New makes hosts that end with the test. A machine that allows none is an error.
func New(t testing.TB, names ...string) (*Network, error) { return newNetwork(t, names) }

// Host is the one with that name.
func (n *Network) Host(name string) *Host { return n.hosts[name] }

// Command is what runs a command on the host, as the same process.
func (h *Host) Command(command ...string) []string {
	return append([]string{"ip", "netns", "exec", h.namespace}, command...)
}

// Listen listens at the host's address. The listener is this process's, wherever its
// goroutines run.
func (h *Host) Listen() (net.Listener, error) { return h.listen() }

// Drop lets all vanish that one host sends to another. What the other sends arrives.
func (n *Network) Drop(from, to *Host) error { return n.rule("add", from, to) }

// Pass ends Drop.
func (n *Network) Pass(from, to *Host) error { return n.rule("del", from, to) }

func (n *Network) rule(verb string, from, to *Host) error {
	return ip("-n", n.router, "rule", verb, "iif", from.link, "to", to.Address, "blackhole")
}
