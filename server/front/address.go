package front

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/server/access"
)

// address returns where the request came from: the last address that a proxy which is not
// believed has added, or the connection's.
func (f *Front) address(r *http.Request) string {
	at := remote(r)
	var hops []string
	for _, line := range r.Header.Values("X-Forwarded-For") {
		hops = append(hops, strings.Split(line, ",")...)
	}
	for f.believed(at) && len(hops) > 0 {
		last := strings.TrimSpace(hops[len(hops)-1])
		hops = hops[:len(hops)-1]
		ip, err := netip.ParseAddr(last)
		if err != nil {
			break
		}
		at = ip.Unmap().WithZone("").String()
	}
	return at
}

func (f *Front) believed(address string) bool {
	ip, err := netip.ParseAddr(address)
	return err == nil && slices.ContainsFunc(f.opts.Proxies, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// remote returns the IP address at the other end of the connection, or its user.
func remote(r *http.Request) string {
	if p, ok := peerOf(r); ok {
		return p.String()
	}
	return addressOf(r.RemoteAddr)
}

// addressOf returns the IP address of an address with a port.
func addressOf(remote string) string {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return "unknown"
	}
	return at.Addr().Unmap().WithZone("").String()
}

// networkOf names who is counted together where no caller is known: an IPv4 address, or the
// network of an IPv6 address, whose other addresses its user has too. The address is one
// that Front.address returned.
func networkOf(address string) string {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return address // that of a user
	}
	if ip.Is6() {
		if p, err := ip.Prefix(64); err == nil {
			return p.String()
		}
	}
	return ip.String()
}

// Sender names who is counted together: a caller, or if callers have no names the user of a
// socket, all of loopback, or a network. The address is one that AddressOf returned. No
// address begins with "caller/".
func Sender(c access.Caller, address string) string {
	if c != nil && c.Name() != "" {
		return "caller/" + c.Name()
	}
	if ip, err := netip.ParseAddr(address); err == nil && ip.IsLoopback() {
		return "loopback" // a user of the machine has all of its addresses
	}
	return networkOf(address)
}
