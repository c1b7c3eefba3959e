//go:build officialclients

package esclients_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/eslock"
	"github.com/holdfast-go/holdfast/lab/engines"
	"github.com/holdfast-go/holdfast/lab/faults"
)

// checking runs a test with each client that refuses the answers of OpenSearch after the server
// has handled the request.
func checking(t *testing.T, test func(t *testing.T, e engines.Engine, o official)) {
	e := engines.OpenSearch(t)
	for name, o := range officials {
		if o.refuses(e) {
			t.Run(name, func(t *testing.T) { test(t, e, o) })
		}
	}
}

// acceptingStore is a store whose client accepts all answers.
func acceptingStore(t *testing.T, e engines.Engine, index string) *eslock.Store {
	t.Helper()
	return newStore(t, officials["opensearch-go v4"].at(t, e.URL, transport(t)), index)
}

// If the client refuses the answer to an applied request, the outcome is unknown: nothing is
// granted or lost by it, and a repeated request returns the result of the first.
func TestRefusedAnswers(t *testing.T) {
	checking(t, func(t *testing.T, e engines.Engine, o official) {
		index := engines.SearchIndex(t, e)
		s := acceptingStore(t, e, index)
		refusing := eslock.New(o.at(t, e.URL, transport(t)), &eslock.Options{Index: index})
		for name, prepare := range faults.Operations {
			switch name {
			case "init", "watch":
				continue // it ends the calls for good; these have nothing to repeat
			}
			t.Run(name, func(t *testing.T) {
				p := prepare(t, s, t.Name())
				err := p.Do(t.Context(), refusing)
				faults.MustBeUnknown(t, err)
				if err != nil && !strings.Contains(err.Error(), "not Elasticsearch") {
					t.Errorf("error %v does not name the cause", err)
				}
				if p.Done != nil && !p.Done() {
					t.Error("the server did not do it: another test is needed")
				}
				if err := p.Do(t.Context(), s); err != nil {
					t.Errorf("repeated: %v", err)
				}
				p.Check()
			})
		}
	})
}

// A Client opened with such a client fails at once, names the client that is needed, and takes
// no lock.
func TestRefusedAtOnce(t *testing.T) {
	checking(t, func(t *testing.T, e engines.Engine, o official) {
		index := engines.SearchIndex(t, e)
		c := holdfast.New(eslock.New(o.at(t, e.URL, transport(t)), &eslock.Options{Index: index}), nil)
		_, err := c.TryLock(t.Context(), "r", nil)
		if !errors.Is(err, driver.ErrUnusable) || !strings.Contains(err.Error(), "OpenSearch's client") {
			t.Errorf("error %v", err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		for st, err := range acceptingStore(t, e, index).List(t.Context(), driver.Filter{Resource: "r"}) {
			t.Errorf("there is %+v, %v", st, err)
		}
	})
}

// passing adds the header that clients of Elasticsearch require of answers.
type passing struct{ http.RoundTripper }

func (p passing) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := p.RoundTripper.RoundTrip(request)
	if err == nil {
		response.Header.Set("X-Elastic-Product", "Elasticsearch")
	}
	return response, err
}

// With this transport the clients of Elasticsearch work with OpenSearch too.
func TestPassingTheCheck(t *testing.T) {
	checking(t, func(t *testing.T, e engines.Engine, o official) {
		client := o.at(t, e.URL, passing{transport(t)})
		useAll(t, holdfast.New(newStore(t, client, engines.SearchIndex(t, e)), nil))
	})
}
