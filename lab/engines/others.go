package engines

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// Handler answers GET /NAME with the URL of a server of this kind, as text. The first request
// for a kind starts the server. Status 404 says what this machine lacks for it, and how to get
// it.
func Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i := slices.IndexFunc(kinds, func(k *kind) bool { return "/"+k.name == r.URL.Path })
		if i < 0 {
			http.Error(w, "unknown kind of server", http.StatusBadRequest)
			return
		}
		e, err := kinds[i].get(context.WithoutCancel(r.Context())) // other requests need it too
		switch _, lacking := errors.AsType[missing](err); {
		case lacking:
			http.Error(w, err.Error(), http.StatusNotFound)
		case err != nil:
			http.Error(w, err.Error(), http.StatusInternalServerError)
		default:
			fmt.Fprintln(w, e.URL)
		}
	})
}

// ask requests a server of this kind from the [Handler] at a URL.
func (k *kind) ask(ctx context.Context, others string) (string, error) {
	u, err := url.JoinPath(others, k.name)
	if err != nil {
		return "", err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u, nil)
	if err != nil {
		return "", err
	}
	// There is only one request: a kept connection would outlive the tests.
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	said := strings.TrimSpace(string(text))
	switch {
	case err != nil:
		return "", err
	case answer.StatusCode == http.StatusNotFound:
		return "", missing{said}
	case answer.StatusCode != http.StatusOK:
		return "", fmt.Errorf("%s: %s", answer.Status, said)
	}
	return said, nil
}

// StartAll starts one server of each kind, all at once. It calls started with the variable and
// the server, or lacks with the reason why this machine cannot run it.
func StartAll(ctx context.Context, started func(variable string, e Engine), lacks func(name string, why error)) error {
	found, errs := make([]Engine, len(kinds)), make([]error, len(kinds))
	var starting sync.WaitGroup
	for i, k := range kinds {
		starting.Go(func() { found[i], errs[i] = k.get(ctx) })
	}
	starting.Wait()
	for i, k := range kinds {
		_, lacking := errors.AsType[missing](errs[i])
		switch {
		case lacking:
			lacks(k.name, errs[i])
		case errs[i] != nil:
			return fmt.Errorf("%s: %w", k.name, errs[i])
		default:
			started(k.variable(), found[i])
		}
	}
	return nil
}

// End ends the servers that all tests of this process share, and returns when they have ended.
func End() {
	var ending sync.WaitGroup
	for _, k := range kinds {
		k.once.Do(func() { k.err = errors.New("the servers have ended") })
		if k.process != nil {
			ending.Go(k.process.end)
		}
	}
	ending.Wait()
}
