package esurl

import (
	"encoding/base64"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/eslock"
	"github.com/holdfast-go/holdfast/internal/quote"
	"github.com/holdfast-go/holdfast/internal/storeurl"
)

const defaultPort = "9200"

// schemes has the protocol of each URL scheme.
var schemes = map[string]string{
	"elasticsearch": "http", "elasticsearch+https": "https",
	"opensearch": "http", "opensearch+https": "https",
}

// target is a parsed URL.
type target struct {
	nodes   []*url.URL // with user and password
	apiKey  string     // as sent in the header
	ca      string     // a file
	options eslock.Options
}

func parse(u *url.URL) (t target, err error) {
	values, err := storeurl.Parameters(u)
	switch {
	case err != nil:
		return t, fail("%v", err)
	case u.Opaque != "" || u.Host == "":
		return t, fail("it names no host: write %s://HOST/?index=NAME", u.Scheme)
	case u.User != nil && u.User.Username() == "":
		return t, fail("it has a password, but no user")
	}
	for host := range strings.SplitSeq(u.Host, ",") {
		node, err := nodeOf(u, host)
		if err != nil {
			return t, err
		}
		t.nodes = append(t.nodes, node)
	}
	if err := storeurl.Each(values, t.set); err != nil {
		return t, fail("%v", err)
	}
	if t.apiKey != "" && u.User != nil {
		return t, fail("it has a user and an API key; only one of them can be used")
	}
	if t.ca != "" && schemes[u.Scheme] != "https" {
		return t, fail("parameter \"ca\" is for HTTPS: write %s+https://", u.Scheme)
	}
	return t, nil
}

func nodeOf(u *url.URL, host string) (*url.URL, error) {
	h, err := url.Parse("//" + host)
	if err != nil || h.Hostname() == "" || h.Host != host {
		return nil, fail("%s is not a host, or host and port", quote.Short(host))
	}
	port := h.Port()
	if port == "" {
		port = defaultPort
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return nil, fail("%s is not a host and port", quote.Short(host))
	}
	return &url.URL{
		Scheme: schemes[u.Scheme], User: u.User,
		Host: net.JoinHostPort(h.Hostname(), port), Path: strings.TrimRight(u.Path, "/"),
	}, nil
}

// set sets a parameter.
func (t *target) set(name, value string) error {
	switch name {
	case "index":
		t.options.Index = value
	case "api_key":
		// Base64 has no spaces. A + in a query stands for a space.
		key := strings.ReplaceAll(value, " ", "+")
		text, err := base64.StdEncoding.DecodeString(key)
		if err != nil || !strings.Contains(string(text), ":") {
			return fmt.Errorf("parameter \"api_key\" is not ID:KEY in Base64, which Elasticsearch calls encoded")
		}
		t.apiKey = key
	case "ca":
		t.ca = value
	case "replicas":
		n, err := strconv.ParseUint(value, 10, 16)
		if err != nil {
			return fmt.Errorf("parameter \"replicas\" is not a number of copies")
		}
		t.options.Replicas = int(n)
		if n == 0 {
			t.options.Replicas = -1
		}
	case "wait_for_active_shards":
		t.options.WaitForActiveShards = value
	case "old_clients":
		old, err := strconv.ParseBool(value)
		if err != nil {
			return fmt.Errorf("parameter \"old_clients\" is neither true nor false")
		}
		t.options.OldClients = old
	default:
		return fmt.Errorf("unknown parameter %s", quote.Short(name))
	}
	return nil
}
