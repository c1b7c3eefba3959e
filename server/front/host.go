package front

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/httplock/wire"
)

// checkHost refuses a request for another name than the server's, except for a probe.
func (f *Front) checkHost(r *http.Request) *refusal {
	if isProbe(r) {
		return nil
	}
	host := lower(r.Host)
	name, port := splitHost(host)
	if f.hosts[host] || f.hosts[name] || isLocal(r, name, port) {
		return nil
	}
	return refused(wire.KindMisdirected, fmt.Sprintf("the server does not have the name %.300q (Host): its operator can give it one", r.Host))
}

// isLocal reports whether the name and port are those of the address that the connection
// came to.
func isLocal(r *http.Request, name, port string) bool {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	switch local := local.(type) {
	case *net.UnixAddr:
		return name == "localhost"
	case *net.TCPAddr:
		if port == "" {
			port = "80" // http and https leave out their own
			if r.TLS != nil {
				port = "443"
			}
		}
		if port != strconv.Itoa(local.Port) {
			return false
		}
		own := local.AddrPort().Addr().Unmap()
		if name == "localhost" {
			return own.IsLoopback()
		}
		ip, err := netip.ParseAddr(strings.Trim(name, "[]"))
		return err == nil && (ip == own.WithZone("") || own.IsLoopback() && (ip.String() == "127.0.0.1" || ip.String() == "::1"))
	}
	return false
}

// parseHost checks the name of a server, and returns it as requests are compared with it.
func parseHost(host string) (string, error) {
	name, port := splitHost(lower(host))
	if ip, bracketed := strings.CutPrefix(name, "["); bracketed {
		if addr, err := netip.ParseAddr(strings.TrimSuffix(ip, "]")); err != nil || !addr.Is6() || addr.Zone() != "" {
			return "", fmt.Errorf("host %.100q: it is no IPv6 address in brackets", host)
		}
	} else if name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-_.") != "" {
		return "", fmt.Errorf("host %.100q: it is not the name of a host, with or without a port", host)
	}
	if n, err := strconv.ParseUint(port, 10, 16); port != "" && (err != nil || n == 0) || strings.HasSuffix(host, ":") {
		return "", fmt.Errorf("host %.100q: the port is not a number from 1 to 65535", host)
	}
	return lower(host), nil
}

// splitHost cuts off the port. The brackets of an IPv6 address stay.
func splitHost(host string) (name, port string) {
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.Contains(host[i:], "]") {
		return host[:i], host[i+1:]
	}
	return host, ""
}

// lower folds capitals of ASCII, and nothing that only looks like one.
func lower(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}
