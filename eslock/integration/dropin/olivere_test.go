package dropin_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/olivere/elastic/v7"

	lock "github.com/holdfast-go/holdfast/eslock/compat/es-distributed-lock"
)

// performer sends Holdfast's requests through a client of olivere/elastic.
type performer struct{ client *elastic.Client }

func (p performer) Perform(req *http.Request) (*http.Response, error) {
	o := elastic.PerformRequestOptions{
		Method: req.Method, Path: req.URL.EscapedPath(), Params: req.URL.Query(), ContentType: req.Header.Get("Content-Type"), Stream: true,
	}
	for status := 300; status < 600; status++ {
		o.IgnoreErrors = append(o.IgnoreErrors, status) // Holdfast interprets these statuses
	}
	if req.Body != nil {
		text, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		o.Body = string(text)
	}
	res, err := p.client.PerformRequest(req.Context(), o)
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: res.StatusCode, Header: res.Header, Body: res.BodyReader, Request: req}, nil
}

// Programs with a client of olivere/elastic need no other client. The guide has the type
// above.
func TestOlivere(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		client, err := elastic.NewSimpleClient(elastic.SetURL(f.Engine.URL), elastic.SetHttpClient(&http.Client{Transport: f.InIndex(f.index)}))
		f.must(err)
		for _, id := range []string{"r", "a b/c"} {
			l, other := lock.NewLock(performer{client}, id).WithOwner("me"), lock.NewLock(performer{client}, id).WithOwner("other")
			f.must(l.Acquire(t.Context(), long))
			f.must(l.Acquire(t.Context(), long))
			f.refused(other.Acquire(t.Context(), long))
			f.refused(f.lock(id, "third").Acquire(t.Context(), long))
			f.must(l.MustRelease())
			f.must(other.Acquire(t.Context(), long))
			f.must(other.MustRelease())
		}
	})
}
