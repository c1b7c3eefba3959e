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
	"github.com/holdfast-go/holdfast/internal/storeurl"
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
	s.owned = append(s.owned, client)
	if err := s.check(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if single, ok := client.(*redis.Client); ok && t.client.MasterName == "" { // Sentinel reports a new primary only to its own client
		s.direct = newDirect(single)
		s.owned = append(s.owned, s.direct.client)
	}
	return s, nil
}

// target is a parsed URL.
type target struct {
	client *redis.UniversalOptions
	store  Options
}

// parameters returns the setters of this package's parameters. All others are go-redis's.
func (t *target) parameters() map[string]func(value string) error {
	anyText := func(value string) (string, error) { return value, nil }
	return map[string]func(value string) error{
		"prefix":            setter(&t.store.Prefix, notEmpty, "is empty"),
		"master_name":       setter(&t.client.MasterName, notEmpty, "is empty"),
		"sentinel_username": setter(&t.client.SentinelUsername, anyText, ""),
		"sentinel_password": setter(&t.client.SentinelPassword, anyText, ""),
		"cluster":           setter(&t.client.IsClusterMode, strconv.ParseBool, "is not true or false"),
		"poll":              setter(&t.store.Poll, strconv.ParseBool, "is not true or false"),
		"replicas":          setter(&t.store.Replicas, strconv.Atoi, "is not a number"),
		"replica_timeout":   setter(&t.store.ReplicaTimeout, time.ParseDuration, "is not a time such as 500ms"),
		"key_retention":     setter(&t.store.KeyRetention, time.ParseDuration, "is not a time such as 24h"),
	}
}

// setter returns a function that parses a value and sets the field. The text of its error
// is the parameter wrong.
func setter[T any](field *T, parse func(string) (T, error), wrong string) func(string) error {
	return func(value string) (err error) {
		if *field, err = parse(value); err != nil {
			return errors.New(wrong)
		}
		return nil
	}
}

func notEmpty(value string) (string, error) {
	if value == "" {
		return "", errors.New("empty")
	}
	return value, nil
}

// parseURL takes the parameters of this package out of the URL and leaves all else to
// go-redis. Its errors wrap driver.ErrInvalid and repeat no password.
func parseURL(u *url.URL) (*target, error) {
	fail := func(format string, args ...any) (*target, error) {
		return nil, fmt.Errorf("%w: redis URL: %s", driver.ErrInvalid, fmt.Sprintf(format, args...))
	}
	values, err := storeurl.Parameters(u)
	switch {
	case err != nil:
		return fail("%v", err)
	case u.Host == "":
		return fail("it names no server: write redis://HOST:PORT/DATABASE")
	}
	t := &target{client: &redis.UniversalOptions{}}
	parameters := t.parameters()
	theirs := url.Values{}
	for name, vs := range values {
		set, ours := parameters[name]
		switch {
		case !ours:
			theirs[name] = vs
		case len(vs) != 1:
			return fail("parameter %q comes %d times", name, len(vs))
		default:
			if err := set(vs[0]); err != nil {
				return fail("parameter %q %v", name, err)
			}
		}
	}
	defaultPort := "6379"
	if t.client.MasterName != "" {
		defaultPort = "26379"
	}
	for server := range strings.SplitSeq(u.Host, ",") {
		port := (&url.URL{Host: server}).Port()
		if port == "" {
			server, port = strings.TrimSuffix(server, ":")+":"+defaultPort, defaultPort
		}
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return fail("the port of a server is not a number from 1 to 65535") // it may be a password without its user
		}
		t.client.Addrs = append(t.client.Addrs, server)
	}
	rest := *u
	rest.Host, rest.RawQuery = t.client.Addrs[0], theirs.Encode()
	o, err := redis.ParseURL(rest.String())
	if err != nil {
		text := strings.TrimPrefix(storeurl.Hide(err.Error(), u), "redis: ")
		if strings.HasPrefix(text, "unexpected option") {
			text += "; beside the driver's own there are " + strings.Join(slices.Sorted(maps.Keys(parameters)), ", ")
		}
		return fail("%s", text)
	}
	t.take(o)
	if err := t.check(); err != nil {
		return fail("%v", err)
	}
	return t, nil
}

func (t *target) check() error {
	switch c := t.client; {
	case c.MasterName != "" && c.IsClusterMode:
		return fmt.Errorf("cluster=true and master_name exclude each other: a Cluster has no Sentinel")
	case c.MasterName == "" && c.SentinelUsername+c.SentinelPassword != "":
		return fmt.Errorf("sentinel_username and sentinel_password require a master_name")
	case c.MasterName == "" && c.DB != 0 && (len(c.Addrs) > 1 || c.IsClusterMode):
		return fmt.Errorf("a Cluster has no database %d", c.DB)
	}
	return t.store.withDefaults().check()
}

// take copies the options that go-redis has read from a URL of a single server.
func (t *target) take(o *redis.Options) {
	c := t.client
	c.TLSConfig = o.TLSConfig
	if c.TLSConfig != nil && len(c.Addrs) > 1 {
		c.TLSConfig.ServerName = "" // each server has its own
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
