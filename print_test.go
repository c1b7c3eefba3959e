package holdfast_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/adapt"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/base"
	"github.com/holdfast-go/holdfast/driver/cas"
	"github.com/holdfast-go/holdfast/driver/model"
	"github.com/holdfast-go/holdfast/eslock"
	"github.com/holdfast-go/holdfast/fence/httpfence"
	"github.com/holdfast-go/holdfast/httplock"
	"github.com/holdfast-go/holdfast/httplock/wire"
	"github.com/holdfast-go/holdfast/memlock"
	"github.com/holdfast-go/holdfast/metrics/observe"
)

// No exported value prints a hold ID or a password, and printing races with nothing.
func TestPrinted(t *testing.T) {
	const password = "hunTer2-Xyzzy"
	ctx := t.Context()
	mem := memlock.New(nil)
	c := newClient(t, mem, nil)
	h := lock(t, c, "r", nil)
	id := h.ID()
	place := driver.NewPlaceID()
	ref := driver.HoldRef{Resource: "r", LockID: "id", HoldID: id, Token: h.Token()}
	status := driver.Status{Resource: "r", LockID: "id", HoldID: id, Token: h.Token()}
	info := holdfast.LockInfo{Client: c, Resource: "r", LockID: "id"}
	attempt := holdfast.AttemptInfo{LockInfo: info, HoldID: id}
	request := driver.AcquireRequest{Resource: "r", LockID: "id", HoldID: id, Place: place}
	held := &holdfast.HeldError{Resource: "r", Holders: []driver.Status{status}}
	record := model.Record{Resource: "r", Holds: []model.Hold{{LockID: "id", HoldID: id}}}
	names, migrations := adapt.NewNames(c, nil), adapt.NewMigrations(c, "m", nil)
	mutex, elector := adapt.NewMutex(ctx, c, "x", nil), adapt.NewElector(c, "e", nil)
	locker := adapt.NewLocker[adapt.Unlocker](c, nil)
	served, err := httplock.New("http://127.0.0.1:1", &httplock.Options{Token: password})
	if err != nil {
		t.Fatal(err)
	}
	handler, err := httpfence.New(http.NotFoundHandler(), &httpfence.Options{
		Resource: func(*http.Request) string { return "r" }, Newest: &httpfence.Memory{},
		Trust: func(*http.Request, httpfence.Token) error { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	wireRef, refusal := wire.RefOfHold(ref), wire.HeldRefusal(held)
	refusal.HoldID = id
	renewal, renewed := wire.Renewal{Ref: wireRef}, wire.RenewResult{HoldID: id}
	release, released := wire.Release{Ref: wireRef, PlaceID: place}, wire.ReleaseResult{HoldID: id, PlaceID: place}
	node := &url.URL{Scheme: "https", User: url.UserPassword("u", password), Host: "h"}
	values := []any{
		h, c, c.Admin().Live()[0],
		info, attempt, holdfast.AttemptInfo{LockInfo: info, HoldID: id, Err: held},
		holdfast.WaitInfo{LockInfo: info}, holdfast.WaitInfo{Err: held},
		holdfast.HoldInfo{Hold: h}, holdfast.CallInfo{Hold: h}, holdfast.FailInfo{LockInfo: info, Err: held},
		ref, status, request, held,
		driver.RenewRequest{HoldRef: ref}, driver.ReleaseRequest{HoldRef: ref, Place: place},
		record.Holds[0], record, model.Edit(record, 0),
		mem.Store, &base.Update{}, base.Change{Record: record}, base.Entry{Record: record},
		mutex, names, elector, migrations, locker,
		observe.New(nil, func(context.Context, observe.Sample) {}),
		httplock.Options{Token: password}, served, mem,
		eslock.New(performer{node}, nil),
		&httpfence.Memory{}, handler,
		cas.Change{New: record},
		wire.AcquireRequestOf(request), wire.GrantOf(request, driver.Grant{}), wireRef, wire.Hold{HoldID: id}, wire.HoldList{Holds: []wire.Hold{{HoldID: id}}},
		renewal, wire.RenewRequest{Holds: []wire.Renewal{renewal}}, renewed, wire.RenewAnswer{Results: []wire.RenewResult{renewed}},
		release, wire.ReleaseRequest{Holds: []wire.Release{release}}, released, wire.ReleaseAnswer{Results: []wire.ReleaseResult{released}},
		wire.ForceRequest{Ref: wireRef}, refusal.Held, refusal, wire.Refusal{}, wire.End{Error: &refusal},
	}

	// Renewals change the hold, as the Client's do, and callers acquire and release locks.
	stop := make(chan struct{})
	var busy sync.WaitGroup
	defer busy.Wait()
	defer close(stop)
	for _, use := range []func() error{
		func() error { return h.Renew(ctx, 0) },
		func() error { return errors.Join(names.Lock(ctx, "n"), names.Unlock(ctx, "n")) },
		func() error { return errors.Join(migrations.Lock(ctx, nil), migrations.Unlock(ctx, nil)) },
		func() error { mutex.Lock(); mutex.Unlock(); return elector.IsLeader(ctx) }, //nolint:staticcheck // printed at the same time
	} {
		busy.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(time.Millisecond):
				}
				if err := use(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	secrets := []string{"PANIC", password, id.String(), hex.EncodeToString(id[:4]), strings.Trim(fmt.Sprint(id[:]), "[]"),
		strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf("%#v", id[:]), "[]byte{"), "}")}
	for _, value := range values {
		name := fmt.Sprintf("%T", value)
		for _, value := range []any{value, []any{value}, struct{ In any }{value}} {
			var all bytes.Buffer
			for _, form := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
				fmt.Fprintf(&all, form+"\n", value)
			}
			slog.New(slog.NewTextHandler(&all, nil)).Info("", "value", value)
			for _, secret := range secrets {
				if strings.Contains(strings.ToLower(all.String()), strings.ToLower(secret)) {
					t.Errorf("%s: printed %s:\n%s", name, secret, all.String())
					break
				}
			}
		}
		var log bytes.Buffer
		slog.New(slog.NewJSONHandler(&log, nil)).Info("", "value", value)
		for _, secret := range secrets {
			if strings.Contains(log.String(), secret) {
				t.Errorf("%s: logged %s: %s", name, secret, log.String())
			}
		}
	}
	if got, want := fmt.Sprintf("%v", h), fmt.Sprintf(`exclusive hold of "r", token %d`, h.Token()); got != want {
		t.Errorf("a hold is printed as %s, want %s", got, want)
	}
	var none *holdfast.Hold
	slog.New(slog.NewTextHandler(io.Discard, nil)).Info("", "none", none)
	if got := fmt.Sprint(none); got != "<nil>" {
		t.Errorf("no hold is printed as %s", got)
	}
}

// performer is an Elasticsearch client with a URL.
type performer struct{ node *url.URL }

func (performer) Perform(*http.Request) (*http.Response, error) { return nil, errors.New("no answer") }
