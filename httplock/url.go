package httplock

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/quote"
	"github.com/holdfast-go/holdfast/internal/storeurl"
)

// tokenVariable has the token, unless the URL names a file.
const tokenVariable = "HOLDFAST_SERVER_TOKEN"

func init() {
	for _, scheme := range []string{"https", "http", "unix"} {
		driver.Register(scheme, func(ctx context.Context, u *url.URL) (driver.Store, error) {
			o := Options{}
			if !u.Query().Has("token_file") {
				o.Token = os.Getenv(tokenVariable)
			}
			s, err := open(u, o)
			if err := cmp.Or(err, ctx.Err()); err != nil {
				return nil, err
			}
			return s, nil
		})
	}
}

// target is a parsed URL.
type target struct {
	name          string  // for display: without a path, which may be a secret
	base          url.URL // the paths of the API are appended
	socket        string  // the path of a Unix socket, or ""
	tokenFile     string
	ca, cert, key string // files
}

// fail returns the error of an invalid URL.
func fail(format string, args ...any) error {
	return fmt.Errorf("%w: server URL: %s", driver.ErrInvalid, fmt.Sprintf(format, args...))
}

func parse(u *url.URL) (*target, error) {
	if u.User != nil {
		return nil, fail("it has a user or a password: give the caller's token in a file, ?token_file=FILE, or in %s", tokenVariable)
	}
	values, err := storeurl.Parameters(u)
	if err != nil {
		return nil, fail("%v", err)
	}
	t := &target{}
	switch u.Scheme {
	case "unix":
		err = t.setSocket(u)
	case "http", "https":
		err = t.setHost(u)
	default:
		err = fail("scheme %q is none of https, http and unix", u.Scheme)
	}
	if err != nil {
		return nil, err
	}
	if err := storeurl.Each(values, t.set); err != nil {
		return nil, fail("%v", err)
	}
	switch {
	case t.base.Scheme != "https" && t.ca+t.cert+t.key != "":
		return nil, fail("the parameters ca, cert and key are for https")
	case (t.cert == "") != (t.key == ""):
		return nil, fail("the parameters cert and key come together")
	}
	return t, nil
}

func (t *target) setSocket(u *url.URL) error {
	if u.Host != "" || u.Opaque != "" || u.Path == "" || u.Path == "/" {
		return fail("it names no socket: write unix:///PATH/TO/SOCKET, with three slashes")
	}
	t.name = "unix:" + u.Path
	t.socket = u.Path
	// The server identifies the caller by the user at the other end of the socket.
	t.base = url.URL{Scheme: "http", Host: "localhost", Path: "/"}
	return nil
}

func (t *target) setHost(u *url.URL) error {
	host := u.Hostname()
	switch {
	case u.Opaque != "" || host == "":
		return fail("it names no host: write %s://HOST", u.Scheme)
	case strings.Contains(u.Host, ","):
		return fail("it names several hosts: give the servers one name")
	}
	if port := u.Port(); port != "" || strings.HasSuffix(u.Host, ":") {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return fail("the port is not a number from 1 to 65535")
		}
	}
	if u.Scheme == "http" && !isLoopback(host) {
		return fail("http is for 127.0.0.1, [::1] and localhost: on a network, others would read the token and could answer: write https://")
	}
	t.name = u.Scheme + "://" + u.Host
	t.base = url.URL{Scheme: u.Scheme, Host: u.Host, Path: cmp.Or(u.Path, "/"), RawPath: u.RawPath}
	return nil
}

func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

// set sets a parameter.
func (t *target) set(name, value string) error {
	if name == "token" {
		return fmt.Errorf("others can see a token in a URL: put it in a file, ?token_file=FILE, or in %s", tokenVariable)
	}
	to := map[string]*string{"token_file": &t.tokenFile, "ca": &t.ca, "cert": &t.cert, "key": &t.key}[name]
	if to == nil {
		return fmt.Errorf("unknown parameter %s: there are token_file, ca, cert and key", quote.Short(name))
	}
	*to = value
	return nil
}

// at returns the URL of a path of the API.
func (t *target) at(path string, query url.Values) *url.URL {
	u := t.base.JoinPath(path)
	u.RawQuery = query.Encode()
	return u
}

// reach returns how far apart callers of the server may be: anywhere with https or a
// store that reaches that far, otherwise on one host.
func (t *target) reach(store driver.Reach) driver.Reach {
	if t.base.Scheme == "https" || store == driver.Network {
		return driver.Network
	}
	return driver.Host
}
