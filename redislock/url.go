package redislock

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/urlsecret"
)

func init() {
	for _, scheme := range []string{"redis", "rediss"} {
		driver.Register(scheme, func(ctx context.Context, u *url.URL) (driver.Store, error) { return open(ctx, u) })
	}
}

func open(ctx context.Context, u *url.URL) (*Store, error) {
	t, err := parseURL(u)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	client := redis.NewUniversalClient(t.client)
	s := New(client, &t.store)
	s.owned = client
	if err := s.check(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if single, ok := client.(*redis.Client); ok && t.client.MasterName == "" { // Sentinel reports a new primary only to its own client
		s.direct = newDirect(single)
	}
	return s, nil
}

// target is a parsed URL.
type target struct {
	client *redis.UniversalOptions
	store  Options
}

// parameters are those of this package. All others are go-redis's.
var parameters = map[string]func(t *target, value string) error{
	"prefix":      func(t *target, v string) error { t.store.Prefix = v; return notEmpty(v) },
	"master_name": func(t *target, v string) error { t.client.MasterName = v; return notEmpty(v) },
	"sentinel_username": func(t *target, v string) error {
		t.client.SentinelUsername = v
		return nil
	},
	"sentinel_password": func(t *target, v string) error {
		t.client.SentinelPassword = v
		return nil
	},
	"cluster": func(t *target, v string) (err error) {
		t.client.IsClusterMode, err = strconv.ParseBool(v)
		return reworded(err, "true or false")
	},
	"poll": func(t *target, v string) (err error) {
		t.store.Poll, err = strconv.ParseBool(v)
		return reworded(err, "true or false")
	},
	"replicas": func(t *target, v string) (err error) {
		t.store.Replicas, err = strconv.Atoi(v)
		return reworded(err, "a number")
	},
	"replica_timeout": func(t *target, v string) (err error) {
		t.store.ReplicaTimeout, err = time.ParseDuration(v)
		return reworded(err, "a time such as 500ms")
	},
	"key_retention": func(t *target, v string) (err error) {
		t.store.KeyRetention, err = time.ParseDuration(v)
		return reworded(err, "a time such as 24h")
	},
}

func notEmpty(value string) error {
	if value == "" {
		return fmt.Errorf("is empty")
	}
	return nil
}

func reworded(err error, want string) error {
	if err != nil {
		return fmt.Errorf("is not %s", want)
	}
	return nil
}

// parseURL takes the parameters of this package out of the URL and leaves all else to
// go-redis. Its errors wrap driver.ErrInvalid and repeat no password.
func parseURL(u *url.URL) (*target, error) {
	fail := func(format string, args ...any) (*target, error) {
		return nil, fmt.Errorf("%w: redis URL: %s", driver.ErrInvalid, fmt.Sprintf(format, args...))
	}
	if err := urlsecret.Misplaced(u); err != nil {
		return fail("%v", err)
	}
	switch {
	case u.Host == "":
		return fail("it names no server: write redis://HOST:PORT/DATABASE")
	case u.Fragment != "":
		return fail("a # is written %%23")
	}
	values, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return fail("the parameters are not properly escaped")
	}
	t := &target{client: &redis.UniversalOptions{}}
	servers := strings.Split(u.Host, ",")
	for _, server := range servers {
		port := (&url.URL{Host: server}).Port()
		if n, err := strconv.Atoi(port); port != "" && (err != nil || n < 1 || n > 65535) {
			return fail("the port of a server is not a number from 1 to 65535") // it may be a password without its user
		}
	}
	rest := *u
	rest.Host = servers[0]
	theirs := url.Values{}
	for name, vs := range values {
		set, ours := parameters[name]
		switch {
		case !ours:
			theirs[name] = vs
		case len(vs) != 1:
			return fail("parameter %q comes %d times", name, len(vs))
		default:
			if err := set(t, vs[0]); err != nil {
				return fail("parameter %q %v", name, err)
			}
		}
	}
	rest.RawQuery = theirs.Encode()
	o, err := redis.ParseURL(rest.String())
	if err != nil {
		text := strings.TrimPrefix(urlsecret.Hide(err.Error(), u), "redis: ")
		if strings.HasPrefix(text, "unexpected option") {
			text += "; beside the driver's own there are " + strings.Join(slices.Sorted(maps.Keys(parameters)), ", ")
		}
		return fail("%s", text)
	}
	t.take(o, servers)
	if err := t.check(len(servers)); err != nil {
		return fail("%v", err)
	}
	return t, nil
}

func (t *target) check(servers int) error {
	switch c := t.client; {
	case c.MasterName != "" && c.IsClusterMode:
		return fmt.Errorf("cluster=true and master_name exclude each other: a Cluster has no Sentinel")
	case c.MasterName == "" && c.SentinelUsername+c.SentinelPassword != "":
		return fmt.Errorf("sentinel_username and sentinel_password require a master_name")
	case c.MasterName == "" && c.DB != 0 && (servers > 1 || c.IsClusterMode):
		return fmt.Errorf("a Cluster has no database %d", c.DB)
	}
	return t.store.withDefaults().check()
}

// take copies the options that go-redis has read from a URL of a single server.
func (t *target) take(o *redis.Options, servers []string) {
	c := t.client
	c.Addrs = make([]string, len(servers))
	for i, server := range servers {
		c.Addrs[i] = address(server, c.MasterName != "")
	}
	c.TLSConfig = o.TLSConfig
	if c.TLSConfig != nil && len(servers) > 1 {
		c.TLSConfig.ServerName = "" // that of each server
	}
	c.Username, c.Password, c.DB, c.Protocol = o.Username, o.Password, o.DB, o.Protocol
	if c.Protocol == 0 {
		c.Protocol = 2 // with 3, go-redis looks for push messages before each reply, and there are none
	}
	c.ClientName = o.ClientName // none by default: setting one requires a right
	c.MaxRetries, c.MinRetryBackoff, c.MaxRetryBackoff = o.MaxRetries, o.MinRetryBackoff, o.MaxRetryBackoff
	c.DialTimeout, c.ReadTimeout, c.WriteTimeout = o.DialTimeout, o.ReadTimeout, o.WriteTimeout
	c.PoolFIFO, c.PoolSize, c.PoolTimeout = o.PoolFIFO, o.PoolSize, o.PoolTimeout
	c.MinIdleConns, c.MaxIdleConns, c.MaxActiveConns = o.MinIdleConns, o.MaxIdleConns, o.MaxActiveConns
	c.MaxConcurrentDials = o.MaxConcurrentDials
	c.ConnMaxIdleTime, c.ConnMaxLifetime, c.ConnMaxLifetimeJitter = o.ConnMaxIdleTime, o.ConnMaxLifetime, o.ConnMaxLifetimeJitter
}

// address returns the server with a port.
func address(server string, sentinel bool) string {
	u := url.URL{Host: server}
	port := u.Port()
	switch {
	case port != "":
		return server
	case sentinel:
		port = "26379"
	default:
		port = "6379"
	}
	return strings.TrimSuffix(server, ":") + ":" + port
}
