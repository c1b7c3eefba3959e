package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
)

// browser imitates two browser windows with the dashboard: it reads the stream of events, and
// for each event loads the parts of both pages that change.
type browser struct {
	server *served
	seen   atomic.Int64 // events whose parts have been loaded
	end    context.CancelFunc
	ended  chan error
}

var browserPages = []string{"/", "/resource?name=orders/00000"}

func startBrowser(ctx context.Context, server *served) *browser {
	b := &browser{server: server, ended: make(chan error, 1)}
	ctx, b.end = context.WithCancel(ctx)
	events := must(b.get(ctx, "/events"))
	go func() {
		err := b.follow(ctx, events)
		if ctx.Err() != nil {
			err = nil // it was stopped
		}
		b.ended <- errors.Join(err, events.Close())
	}()
	return b
}

func (b *browser) follow(ctx context.Context, events io.Reader) error {
	lines := bufio.NewScanner(events)
	for lines.Scan() {
		if lines.Text() != "event: sight" {
			continue
		}
		for _, page := range browserPages {
			part, err := b.get(ctx, page)
			if err != nil {
				return err
			}
			_, err = io.Copy(io.Discard, part)
			if err = errors.Join(err, part.Close()); err != nil {
				return err
			}
		}
		b.seen.Add(1)
	}
	return errors.Join(lines.Err(), errors.New("the stream of events has ended"))
}

// get returns the content of an address.
func (b *browser) get(ctx context.Context, at string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, b.server.url+at, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+b.server.callers[0].token)
	if !strings.HasPrefix(at, "/events") {
		req.Header.Set("Holdfast-Part", "1")
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("%s: %s", at, res.Status), res.Body.Close())
	}
	return res.Body, nil
}

func (b *browser) stop() error {
	b.end()
	return <-b.ended
}
