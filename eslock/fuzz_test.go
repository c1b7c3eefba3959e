package eslock

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/eslock/internal/rest"
)

// Only an answer about the document of the request counts as a grant, a loss or a status.
func FuzzReply(f *testing.F) {
	for _, text := range []string{
		reply(created, held("a"), ""), reply(updated, held("a"), ""), reply(noop, held("b"), ""), reply(noop, held("a"), ""),
		reply(noop, `{"lockId":"old","mode":"exclusive","token":0,"created":1,"end":2,"delay":0}`, ""),
		reply(noop, "", `,"damage":"x"`), reply(updated, "", ""), reply("deleted", "", ""),
		reply(noop, "", `,"position":1,"ahead":[`+waiting("b")+`],"waiters":2`), reply(noop, "", `,"places":[`+waiting("b")+`]`),
		refusedAt(0, held("b"), ""), refusedAt(1, "", waiting("b")),
		bulk(failed("r", 404, rest.DocumentMissing, "x")), `{"error":"x"}`, `{"items":[]}`, "null", "<html>",
		bulk(`{"_id":"r"}`), bulk(`{"_id":"r","status":200,"result":"noop","get":{"_source":{"holdfast":{"answer":{"token":1e400}}}}}`),
		bulk(`{"_id":"r","status":200,"result":"updated","get":{"_source":{"holdfast":{"answer":{"time":1,"token":1,"ends":[null]}}}}}`),
	} {
		f.Add(text, 200)
		f.Add(text, 404)
	}
	f.Fuzz(func(t *testing.T, text string, status int) {
		if status < 100 || status > 999 {
			return
		}
		s := New(always(status, text), nil)
		ok := status/100 == 2
		q := request("r", "a")
		q.Place = driver.PlaceID{1}
		g, err := s.Acquire(t.Context(), q)
		var refused *driver.HeldError
		switch {
		case err == nil && (!ok || g.Token == 0 || g.Token > driver.MaxToken || g.Left <= 0):
			t.Errorf("status %d granted %+v", status, g)
		case errors.As(err, &refused) && (!ok || refused.Resource != "r"):
			t.Errorf("status %d: refused with %+v", status, refused)
		}
		// A renewal with a conflict is repeated until its ctx ends.
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer cancel()
		rs, err := s.Renew(ctx, []driver.RenewRequest{{HoldRef: ref("r", "a"), TTL: time.Hour}})
		switch {
		case err != nil && ctx.Err() != nil: // the short time may be over before anything is sent
		case err != nil || len(rs) != 1 || rs[0].Err == nil && (!ok || rs[0].Left <= 0):
			t.Fatalf("status %d renewed %+v, %v", status, rs, err)
		case errors.Is(rs[0].Err, driver.ErrLost) && !ok:
			t.Errorf("status %d: %v", status, rs[0].Err)
		}
		for status, err := range s.List(t.Context(), driver.Filter{Resource: "r", Expired: true}) {
			if err == nil && (status.Resource != "r" || status.Left < 0) {
				t.Errorf("listed %+v", status)
			}
		}
		for p, err := range s.Waiters(t.Context(), driver.Filter{Resource: "r"}) {
			if err == nil && (p.Resource != "r" || p.Left <= 0) {
				t.Errorf("found the place %+v", p)
			}
		}
	})
}
