package eslock_test

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/eslock"
	"github.com/holdfast-go/holdfast/lab/ask"
	"github.com/holdfast-go/holdfast/lab/faults"
)

// spoiled is a node whose answers are replaced after it has executed the requests.
type spoiled struct {
	node
	spoil func(answer) answer
}

type answer struct {
	status int
	kind   string
	body   io.Reader
}

func (s spoiled) Perform(req *http.Request) (*http.Response, error) {
	res, err := s.node.Perform(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	a := s.spoil(answer{res.StatusCode, res.Header.Get("Content-Type"), bytes.NewReader(text)})
	return &http.Response{
		StatusCode: a.status, Header: http.Header{"Content-Type": {a.kind}}, Body: io.NopCloser(a.body), Request: req,
	}, nil
}

// instead returns an answer of a proxy.
func instead(status int, kind, body string) func(answer) answer {
	return func(answer) answer { return answer{status, kind, strings.NewReader(body)} }
}

// brokenOff ends an answer in the middle, with an error or as if it were complete.
func brokenOff(end error) func(answer) answer {
	return func(a answer) answer {
		half := io.LimitReader(a.body, a.body.(*bytes.Reader).Size()/2)
		return answer{a.status, a.kind, io.MultiReader(half, iotest.ErrReader(end))}
	}
}

const html = "text/html; charset=utf-8"

// A wrong answer to an executed request leaves its outcome open, and a repeat finds the
// result.
func TestSpoiledAnswers(t *testing.T) {
	t.Parallel()
	spoils := map[string]func(answer) answer{
		"gateway timeout":        instead(http.StatusGatewayTimeout, html, "<html>Gateway Timeout</html>"),
		"a page":                 instead(http.StatusOK, html, "<html>Welcome</html>"),
		"a page that is missing": instead(http.StatusNotFound, html, "<html>Not Found</html>"),
		"a conflict of a proxy":  instead(http.StatusConflict, "application/json", `{"message":"conflict"}`),
		"cut off":                brokenOff(io.ErrUnexpectedEOF),
		"cut off, unnoticed":     brokenOff(io.EOF),
	}
	onBoth(t, func(t *testing.T, n node) {
		for name, spoil := range spoils {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				n := n.in(t)
				opts := &eslock.Options{Index: n.Index(t)}
				s, far := newStore(t, n, opts), eslock.New(spoiled{n, spoil}, opts)
				for what, prepare := range faults.Operations {
					if what != "watch" { // there are no wake-ups
						t.Run(what, func(t *testing.T) { done(t, s, far, prepare(t, s, what)) })
					}
				}
			})
		}
	})
}

// done makes a call that succeeds for s, while far does not see the answer, and repeats
// it.
func done(t *testing.T, s, far driver.Store, p faults.Prepared) {
	t.Helper()
	faults.MustBeUnknown(t, p.Do(t.Context(), far))
	if p.Done != nil && !p.Done() {
		t.Error("the node has not executed the request")
	}
	if err := p.Do(t.Context(), s); err != nil {
		t.Errorf("repeated: %v", err)
	}
	p.Check()
}

// twice is a node behind a proxy that sends each update twice, with an event in between.
type twice struct {
	node
	between func()
}

func (w twice) Perform(req *http.Request) (*http.Response, error) {
	if !strings.HasSuffix(req.URL.Path, "/_bulk") {
		return w.node.Perform(req)
	}
	body, err := req.GetBody()
	if err != nil {
		return nil, err
	}
	res, err := w.node.Perform(req)
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(io.Discard, res.Body)
	res.Body.Close()
	if err != nil {
		return nil, err
	}
	w.between()
	req.Body = body
	return w.node.Perform(req)
}

// A client or a proxy that got no answer may repeat a forced release that names no hold.
// It ends the hold that existed when it was requested, and not a later one.
func TestForcedReleaseSentTwice(t *testing.T) {
	onBoth(t, func(t *testing.T, n node) {
		opts := &eslock.Options{Index: n.Index(t)}
		s, old := newStore(t, n, opts), n.oldClient(t, opts.Index, "program 7")
		for name, lock := range map[string]func(resource string) bool{
			"holdfast": func(resource string) bool {
				return errorOf(s.Acquire(t.Context(), ask.Request(resource, "program 7"))) == nil
			},
			"es-distributed-lock": func(resource string) bool { return old.acquire(resource, time.Hour) },
		} {
			for _, resource := range []string{"plain-" + name, "a " + name} {
				if !lock(resource) {
					t.Fatal("not locked")
				}
				locked := 0
				far := eslock.New(twice{n, func() {
					if len(held(t, s, resource)) == 0 && lock(resource) {
						locked++
					}
				}}, opts)
				rs, err := far.Release(t.Context(), []driver.ReleaseRequest{{HoldRef: driver.HoldRef{Resource: resource, LockID: "program 7"}}})
				if err != nil || rs[0].Err != nil {
					t.Fatal(rs, err)
				}
				if locked != 1 || len(held(t, s, resource)) != 1 {
					t.Errorf("%q: locked %d times in between, and then held by %v", resource, locked, held(t, s, resource))
				}
			}
		}
	})
}

// held returns the holds of a resource.
func held(t *testing.T, s driver.Store, resource string) (all []driver.Status) {
	t.Helper()
	for status, err := range s.List(t.Context(), driver.Filter{Resource: resource}) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, status)
	}
	return all
}

// An answer to another request, mixed up by a proxy or a client, neither grants nor
// refuses.
func TestAnswersOfOthers(t *testing.T) {
	onBoth(t, func(t *testing.T, n node) {
		opts := &eslock.Options{Index: n.Index(t)}
		s := newStore(t, n, opts)
		mine, theirs := ask.Granted(t, s, ask.Request("mine", "a")), ask.Granted(t, s, ask.Request("theirs", "b"))
		last := answer{http.StatusOK, "application/json", strings.NewReader("{}")}
		mixed := eslock.New(spoiled{n, func(a answer) answer {
			a, last = last, a
			return a
		}}, opts)
		for range 3 {
			for what, err := range map[string]error{
				"acquire": errorOf(mixed.Acquire(t.Context(), ask.Request("theirs", "a"))),
				"held":    errorOf(mixed.Acquire(t.Context(), ask.Request("mine", "b"))),
			} {
				if err == nil || errors.Is(err, driver.ErrHeld) {
					t.Errorf("%s: %v", what, err)
				}
			}
		}
		found := map[driver.HoldRef]bool{}
		for status, err := range s.List(t.Context(), driver.Filter{}) {
			if err != nil {
				t.Fatal(err)
			}
			found[status.Ref()] = true
		}
		if want := map[driver.HoldRef]bool{mine: true, theirs: true}; !maps.Equal(found, want) {
			t.Errorf("found %v, want %v", found, want)
		}
	})
}

func errorOf[T any](_ T, err error) error { return err }
