package register

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/holdfast-go/holdfast/eslock/fence"
)

// searchRegister is an index of Elasticsearch or OpenSearch. PrepareSearch creates its
// documents.
type searchRegister struct {
	node   *url.URL
	index  string
	client *http.Client
}

// openSearch opens the register at a node's URL, whose path is the index.
func openSearch(base string) (Register, error) {
	u, err := url.Parse(base)
	if err != nil {
		return nil, err
	}
	return searchRegister{
		&url.URL{Scheme: u.Scheme, Host: u.Host}, strings.TrimPrefix(u.Path, "/"), &http.Client{Transport: &http.Transport{}},
	}, nil
}

// PrepareSearch creates the documents.
func PrepareSearch(ctx context.Context, base string, resources []string) error {
	opened, err := openSearch(base)
	if err != nil {
		return err
	}
	defer opened.Close()
	r := opened.(searchRegister)
	for _, resource := range resources {
		if err := r.send(ctx, http.MethodPut, "_doc", resource, `{}`); err != nil {
			return err
		}
	}
	return nil
}

// Perform implements eslock.Performer.
func (r searchRegister) Perform(q *http.Request) (*http.Response, error) {
	q.URL.Scheme, q.URL.Host = r.node.Scheme, r.node.Host
	return r.client.Do(q)
}

func (r searchRegister) send(ctx context.Context, method, endpoint, resource, body string) error {
	path := (&url.URL{}).JoinPath("/", r.index, endpoint, resource)
	q, err := http.NewRequestWithContext(ctx, method, path.String(), strings.NewReader(body))
	if err != nil {
		return err
	}
	q.Header.Set("Content-Type", "application/json")
	answer, err := r.Perform(q)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode >= 300 {
		why, _ := io.ReadAll(io.LimitReader(answer.Body, 1000))
		return fmt.Errorf("register: %s: %s", answer.Status, why)
	}
	return nil
}

func (r searchRegister) Write(ctx context.Context, resource string, token uint64, value string, fenced bool) error {
	if !fenced {
		return r.send(ctx, http.MethodPost, "_update", resource, fmt.Sprintf(`{"doc": {"value": %q}}`, value))
	}
	document := fence.Document{Client: r, Index: r.index, ID: resource}
	return stale(document.Update(ctx, map[string]string{"value": value}, token))
}

func (r searchRegister) Close() error {
	r.client.CloseIdleConnections()
	return nil
}
