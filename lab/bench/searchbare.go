package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/eslock"
)

// bareSearch sends the two updates of a lock and its unlock with the client alone, as eslock
// wrote them. They are encoded beforehand. Only the hold ID, and the token from the reply to
// the first update, are inserted each time.
type bareSearch struct {
	client           eslock.Performer
	acquire, release bareUpdate
	holdID, token    []byte // as they are in the updates
}

// bareUpdate is a recorded update.
type bareUpdate struct {
	url    string
	header http.Header
	body   []byte
}

// recorder is a Performer that records requests.
type recorder struct {
	eslock.Performer
	updates []bareUpdate
}

// Perform implements eslock.Performer.
func (r *recorder) Perform(req *http.Request) (*http.Response, error) {
	update := bareUpdate{url: req.URL.String(), header: req.Header.Clone()}
	if req.Body != nil {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		update.body, req.Body = body, io.NopCloser(bytes.NewReader(body))
	}
	r.updates = append(r.updates, update)
	return r.Performer.Perform(req)
}

// recordSearch lets eslock lock and unlock a resource and records the updates.
func recordSearch(ctx context.Context, n *searchNode, resource string) *bareSearch {
	sent := &recorder{Performer: n}
	client := n.lockBy(ctx, sent)
	defer finish(client.Close)
	sent.updates = nil
	h := must(client.Lock(ctx, resource, nil))
	check(h.Unlock(ctx))
	if len(sent.updates) != 2 {
		failf("%d requests for a lock and its unlock", len(sent.updates))
	}
	b := &bareSearch{
		client: n, acquire: sent.updates[0], release: sent.updates[1],
		holdID: []byte(h.ID().String()), token: strconv.AppendUint(nil, h.Token(), 10),
	}
	if !bytes.Contains(b.acquire.body, b.holdID) || !bytes.Contains(b.release.body, b.holdID) || !bytes.Contains(b.release.body, b.token) {
		failf("no hold ID or token in an update")
	}
	return b
}

// lockAndUnlock sends the two updates.
func (b *bareSearch) lockAndUnlock(ctx context.Context) error {
	id := []byte(driver.NewHoldID().String())
	token, err := b.send(ctx, b.acquire, bytes.Replace(b.acquire.body, b.holdID, id, 1))
	if err != nil {
		return err
	}
	body := bytes.Replace(b.release.body, b.holdID, id, 1)
	_, err = b.send(ctx, b.release, bytes.Replace(body, b.token, token, 1))
	return err
}

func (b *bareSearch) send(ctx context.Context, u bareUpdate, body []byte) (token []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header = u.header.Clone()
	res, err := b.client.Perform(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	var reply struct {
		Items []struct {
			Update struct {
				Result string
				Get    struct {
					Source struct {
						Holdfast struct{ Answer struct{ Token json.Number } }
					} `json:"_source"`
				}
			}
		}
	}
	if err := json.Unmarshal(text, &reply); err != nil {
		return nil, err
	}
	if len(reply.Items) != 1 {
		return nil, fmt.Errorf("an update got the answer %s", text)
	}
	done := reply.Items[0].Update
	if done.Result != "created" && done.Result != "updated" {
		return nil, fmt.Errorf("an update changed nothing: %s", text)
	}
	return []byte(done.Get.Source.Holdfast.Answer.Token), nil
}
