package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/holdfast-go/holdfast"
)

// batch has the configuration of the work.
type batch struct {
	inbox, to   string
	parallel    int
	wait, every time.Duration
	locks       *holdfast.Client
	service     *http.Client // sends the token of the lock in the ctx
}

// serve works for the customer until ctx ends. Failed work is repeated at the next interval.
func (b *batch) serve(ctx context.Context, customer string) {
	for ctx.Err() == nil {
		switch err := b.turn(ctx, customer); {
		case ctx.Err() != nil && errors.Is(err, ctx.Err()): // the program was told to end during the wait
		case errors.Is(err, holdfast.ErrHeld):
			log.Printf("%s waits for others: %v", customer, err)
		case err != nil:
			log.Printf("%s failed: %v", customer, err) // also if it lost its lock
		}
		select {
		case <-time.After(b.every):
		case <-ctx.Done():
		}
	}
}

// turn sends the customer's files, if there are any, under two locks.
func (b *batch) turn(ctx context.Context, customer string) (err error) {
	folder := filepath.Join(b.inbox, customer)
	if files, err := os.ReadDir(folder); err != nil || len(files) == 0 {
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, b.wait)
	defer cancel()
	mine, err := b.locks.Lock(waiting, "customers/"+customer, nil)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, mine.Unlock(ctx)) }()
	waiting, cancel = mine.Bind(waiting)
	defer cancel()
	slot, err := b.locks.RLock(waiting, "slots", &holdfast.LockOptions{Limit: b.parallel})
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, slot.Unlock(ctx)) }()

	// The work ends if either lock is lost, but not with ctx.
	work, cancel := slot.Bind(context.WithoutCancel(ctx))
	defer cancel()
	work, cancel = mine.Bind(work) // bound last: the service gets its token
	defer cancel()
	files, err := os.ReadDir(folder) // read again: another instance may have sent some
	for i := 0; err == nil && i < len(files) && ctx.Err() == nil; i++ {
		err = b.send(work, customer, files[i].Name())
	}
	return cmp.Or(context.Cause(work), err)
}

// send sends a file and removes it. A file that was not removed is sent again, maybe by
// another machine, so the service must accept that.
func (b *batch) send(ctx context.Context, customer, name string) error {
	log.Printf("sending %s/%s, with token %d", customer, name, holdfast.HoldOf(ctx).Token())
	path := filepath.Join(b.inbox, customer, name)
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	to, err := url.JoinPath(b.to, customer, url.PathEscape(name))
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPut, to, file)
	if err != nil {
		return err
	}
	answer, err := b.service.Do(r)
	if err != nil {
		return err
	}
	answer.Body.Close()
	if answer.StatusCode/100 != 2 {
		return fmt.Errorf("%s: the service answered %s", name, answer.Status)
	}
	if err := os.Remove(path); err != nil {
		return err
	}
	log.Printf("sent %s/%s", customer, name)
	return nil
}
