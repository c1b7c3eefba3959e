package serve

import (
	"net"
	"strings"
	"testing"
	"time"
)

// The user is told of each listener who comes in there.
func TestWho(t *testing.T) {
	loopback, other := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}, &net.TCPAddr{IP: net.IPv4zero, Port: 1}
	for _, c := range []struct {
		config Config
		at     net.Addr
		want   string
	}{
		{Config{}, loopback, "every user of this machine may lock and look"},
		{Config{NoAuth: true}, loopback, "everybody who reaches it may lock and look (--no-auth)"},
		{Config{NoAuth: true}, other, "everybody who reaches it may lock and look (--no-auth)"},
		{Config{Auth: "a.json"}, loopback, "the callers in a.json may do what it says"},
		{Config{Auth: "a.json"}, other, "the callers in a.json may do what it says"},
	} {
		if got := c.config.who(c.at); got != c.want {
			t.Errorf("%+v at %v: %s", c.config, c.at, got)
		}
	}
}

func TestListenOf(t *testing.T) {
	for listen, allowed := range map[string]bool{
		"127.0.0.1:0": true, "127.1.2.3:80": true, "[::1]:80": true, "localhost:80": true, "LOCALHOST:80": true, "[::ffff:127.0.0.1]:80": true,
		":80": false, "0.0.0.0:80": false, "[::]:80": false, "10.0.0.1:80": false, "localhost.example.com:80": false, "127.0.0.1.example.com:80": false,
		"[fe80::1%eth0]:80": false, "": false, "127.0.0.1": false, "80": false,
	} {
		c := Config{Listen: listen, MaxWait: time.Second}
		if err := c.Validate(); (err == nil) != allowed {
			t.Errorf("%q: %v", listen, err)
		}
	}
}

// What counts is the address that is bound: no name is trusted to stand for loopback. The test
// binds others than loopback's, which the names of Config are only said to be.
func TestBoundAddress(t *testing.T) {
	loopback, all := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}, &net.TCPAddr{IP: net.IPv4zero, Port: 1}
	private := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 1}
	mapped, six := &net.TCPAddr{IP: net.ParseIP("::ffff:127.0.0.1"), Port: 1}, &net.TCPAddr{IP: net.IPv6loopback, Port: 1}
	behind := Config{Listen: "localhost:1", Plaintext: true, Auth: "a"}
	for _, c := range []struct {
		config  Config
		at      net.Addr
		allowed bool
	}{
		{Config{Listen: "localhost:1"}, loopback, true},
		{Config{Listen: "localhost:1"}, mapped, true},
		{Config{Listen: "localhost:1"}, six, true},
		{Config{Listen: "localhost:1"}, private, false},
		{Config{Listen: "localhost:1"}, all, false},
		{Config{Listen: "localhost:1", Plaintext: true}, private, false},
		{Config{Listen: "localhost:1", Auth: "a"}, private, false},
		{behind, private, true},
	} {
		_, err := c.config.listener(bound{at: c.at}, "--listen", nil)
		if (err == nil) != c.allowed {
			t.Errorf("%+v at %v: %v", c.config, c.at, err)
		}
		if err != nil && !strings.Contains(err.Error(), c.at.String()) {
			t.Errorf("%v does not say where %v is", err, c.at)
		}
	}
}

// bound is a listener at an address.
type bound struct {
	net.Listener
	at net.Addr
}

func (b bound) Addr() net.Addr { return b.at }

// The listeners ask.
func TestListenersAreChecked(t *testing.T) {
	c := Config{Listen: "0.0.0.0:0"} // as if that were a name that Validate takes for loopback
	if all, err := c.listen(t.Context(), nil); err == nil || len(all) != 0 || !strings.Contains(err.Error(), "reached from other machines") {
		t.Errorf("%v, %v", all, err)
	}
}

func TestProxies(t *testing.T) {
	c := Config{Listen: "127.0.0.1:0", MaxWait: time.Second, Auth: "a", Proxies: []string{"10.0.0.0/8", "::1", "192.168.1.1"}}
	check(t, c.Validate())
	if len(c.proxies) != 3 || c.proxies[1].Bits() != 128 || c.proxies[2].Bits() != 32 {
		t.Errorf("the proxies are %v", c.proxies)
	}
}
