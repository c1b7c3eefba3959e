package redislock_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/lab/engines"
	"github.com/holdfast-go/holdfast/lab/faults"
	"github.com/holdfast-go/holdfast/lab/proxy"
	"github.com/holdfast-go/holdfast/lab/strange"
)

// The secret of these tests. It has every character that is escaped anywhere.
const password = `pa$$ w/rd:+&=%@"é`

// Whatever is wrong with a server or its URL, no error and no log repeats secrets of the
// URL.
func TestSecretsStaySecret(t *testing.T) {
	t.Parallel()
	server := engines.NewRedis(t)
	admin := connect(t, options(t, server.URL))
	if err := admin.Do(t.Context(), "ACL", "SETUSER", "ada", "on", ">"+password, "+@all", "~*", "&*").Err(); err != nil {
		t.Fatal(err)
	}
	closed, http, echo := strange.Closed(t), strange.HTTP(t), strange.Echo(t)
	n := proxy.New(t)
	n.Set(proxy.CutReplies)
	host := addresses(server.URL)[0]
	ada, eve := url.UserPassword("ada", password).String(), url.UserPassword("eve", password).String()
	for name, address := range map[string]string{
		"closed at once":     "redis://" + ada + "@" + closed,
		"port closed":        "redis://" + ada + "@127.0.0.1:1",
		"another protocol":   "redis://" + ada + "@" + http,
		"echo":               "redis://" + ada + "@" + echo,
		"replies cut":        "redis://" + ada + "@" + n.Address(host),
		"no such user":       "redis://" + eve + "@" + host,
		"no such database":   "redis://" + ada + "@" + host + "/99",
		"no TLS there":       "rediss://" + ada + "@" + host,
		"no such host":       "redis://" + ada + "@holdfast.invalid",
		"no Cluster":         "redis://" + ada + "@" + host + "?cluster=true",
		"no Sentinel":        "redis://" + ada + "@" + host + "?master_name=main&sentinel_username=ada&sentinel_password=" + url.QueryEscape(password),
		"not escaped":        "redis://ada:" + password + "@" + host,
		"badly escaped":      "redis://ada:%zz" + url.PathEscape(password) + "@" + host,
		"bad port":           "redis://" + ada + "@h:x",
		"bad database":       "redis://" + ada + "@h/x",
		"bad parameter":      "redis://" + ada + "@h?read_timeout=soon",
		"as a parameter":     "redis://h?password=" + url.QueryEscape(password),
		"without a Sentinel": "redis://h?sentinel_password=" + url.QueryEscape(password),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := strange.Refuses(t, address, password)
			switch name {
			case "no such user":
				if !errors.Is(err, driver.ErrUnusable) || !strings.Contains(err.Error(), "refuses user or password") {
					t.Errorf("%v; want ErrUnusable that says why", err)
				}
			case "no such database":
				if !errors.Is(err, driver.ErrUnusable) || !strings.Contains(err.Error(), "no database of that number") {
					t.Errorf("%v; want ErrUnusable that says why", err)
				}
			case "port closed", "closed at once", "no such host":
				faults.MustBeUnknown(t, err)
			}
		})
	}
	t.Run("all is right", func(t *testing.T) {
		c, err := holdfast.Open(t.Context(), "redis://"+ada+"@"+host, nil)
		if err != nil {
			t.Fatal(err)
		}
		h, err := c.Lock(t.Context(), "r", nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(h.Unlock(t.Context()), c.Close()); err != nil {
			t.Error(err)
		}
	})
}
