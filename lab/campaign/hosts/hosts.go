// Package hosts makes small hosts for fault campaigns: network namespaces with an address each,
// and a router namespace between them that can drop packets from one host to another. Only
// their networks are separate: they share processes and files.
//
// It needs Linux, the command ip and the rights of root.
package hosts

import (
	"net"
	"testing"
)

// Network is a group of hosts with a router.
type Network struct {
	router string // the name of its namespace
	hosts  map[string]*Host
}

// Host is a host of a Network.
type Host struct {
	Address   string
	namespace string
	link      string // the router's link to the host
}

// New makes hosts that end with the test. It returns an error if the machine does not allow
// that.
func New(t testing.TB, names ...string) (*Network, error) { return newNetwork(t, names) }

// Host returns the host with the name.
func (n *Network) Host(name string) *Host { return n.hosts[name] }

// Command returns the command line that runs a command on the host, in the same process.
func (h *Host) Command(command ...string) []string {
	return append([]string{"ip", "netns", "exec", h.namespace}, command...)
}

// Listen listens at the host's address. The listener belongs to this process, and any goroutine
// may use it.
func (h *Host) Listen() (net.Listener, error) { return h.listen() }

// Drop drops all packets from one host to another. Packets in the other direction arrive.
func (n *Network) Drop(from, to *Host) error { return n.rule("add", from, to) }

// Pass ends Drop.
func (n *Network) Pass(from, to *Host) error { return n.rule("del", from, to) }

func (n *Network) rule(verb string, from, to *Host) error {
	return ip("-n", n.router, "rule", verb, "iif", from.link, "to", to.Address, "blackhole")
}
