package eslock

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/lab/esnode"
	"github.com/holdfast-go/holdfast/lab/interop/oldeslock"
)

// broken is a program without an atomic statement: it reads, decides and writes.
type broken struct{ old }

func (broken) kind() string { return "broken" }

func (p broken) lock(ctx context.Context, a ask) (grip, error) {
	path := "/" + p.index + "/_doc/" + url.PathEscape(a.resource)
	var found struct {
		Source struct {
			Owner   string
			Expires time.Time
		} `json:"_source"`
	}
	if err := p.send(ctx, http.MethodGet, path, nil, &found); err != nil {
		return nil, err
	}
	if found.Source.Owner != a.owner && time.Now().Before(found.Source.Expires) {
		return nil, nil
	}
	now := time.Now()
	fields, err := json.Marshal(map[string]any{"owner": a.owner, "acquired": now, "expires": now.Add(a.ttl)})
	if err != nil {
		return nil, err
	}
	var written struct{ Error any }
	if err := p.send(ctx, http.MethodPut, path+"?refresh=true", fields, &written); err != nil || written.Error != nil {
		return nil, fmt.Errorf("broken client: %v, error %w", written.Error, err)
	}
	l := oldeslock.New(p.node, p.index, a.resource, a.owner, time.Now)
	return brokenGrip{oldGrip{l}, now.Add(a.ttl)}, nil
}

// brokenGrip assumes that nobody overwrote its last write.
type brokenGrip struct {
	oldGrip
	expires time.Time
}

func (g brokenGrip) holds() bool { return time.Now().Before(g.expires) }

func (p broken) send(ctx context.Context, method, path string, body []byte, reply any) error {
	req, err := http.NewRequestWithContext(ctx, method, path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := p.node.Perform(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	return json.NewDecoder(res.Body).Decode(reply)
}

// TestRaces finds a wrong statement. Otherwise its success would mean nothing.
func TestBrokenStatementIsFound(t *testing.T) {
	esnode.OnBoth(t, func(t *testing.T, n esnode.Node) {
		a := newArena(t, n, n.Index(t), 0, 1)
		if r := a.play(t.Context(), acquiring); len(r.Faults()) != 0 {
			t.Fatal(r.Faults())
		}
		a.kinds[0] = broken{old{n, a.index}}
		const most = 200
		for i := range most {
			r := a.play(t.Context(), acquiring)
			for _, fault := range r.Faults() {
				if strings.Contains(fault, "overlap") && strings.Contains(fault, "broken") {
					t.Logf("found in round %d: %s", i, fault)
					return
				}
			}
		}
		t.Errorf("not found in %d rounds", most)
	})
}
