package serve

import (
	"net"
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

func TestProxies(t *testing.T) {
	c := Config{Listen: "127.0.0.1:0", MaxWait: time.Second, Auth: "a", Proxies: []string{"10.0.0.0/8", "::1", "192.168.1.1"}}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	if len(c.proxies) != 3 || c.proxies[1].Bits() != 128 || c.proxies[2].Bits() != 32 {
		t.Errorf("the proxies are %v", c.proxies)
	}
}
