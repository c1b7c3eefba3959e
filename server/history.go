package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock/wire"
	"github.com/holdfast-go/holdfast/server/access"
	"github.com/holdfast-go/holdfast/server/history"
)

// historyPage is how many events are read at a time.
const historyPage = 500

// historyError is an error of the history, which says nothing of the store.
type historyError struct{ error }

// history serves GET /v1/history.
func (s *Server) history(x *exchange) {
	q, chosen, err := x.parseHistory()
	if err != nil {
		x.refuse(wire.KindInvalid, detail(err))
		return
	}
	if !x.mayLook(chosen.Resource, "") {
		x.denyLook(chosen.Resource)
		return
	}
	if s.opts.History == nil {
		x.refuse(wire.KindUnsupported, "this server keeps no history: it was started without --history")
		return
	}
	end, ok := x.takeList()
	if !ok {
		return
	}
	defer end()

	out := lister{x: x, q: q, entries: []json.RawMessage{}}
	out.last.Resource = chosen.Resource
	err = x.listHistory(&out, chosen)
	out.end("history", err, func(events []json.RawMessage) list {
		return list{Events: events, Kept: new(keptOf(s.opts.History.State(), time.Now()))}
	})
}

// listHistory adds the events to out, as far as it takes them.
func (x *exchange) listHistory(out *lister, q history.Query) error {
	named := x.caller.May(access.Force, q.Resource)
	for {
		events, err := x.s.opts.History.Events(x.r.Context(), q)
		if err != nil {
			return historyError{err}
		}
		now := time.Now()
		for _, e := range events {
			if err := out.revoked(); err != nil {
				return err
			}
			if !out.add(historyEvent(e, now, named)) {
				return nil
			}
			q.Before = e.Number
		}
		if len(events) < q.Limit {
			return nil
		}
	}
}

// parseHistory reads the query. It is nothing for the store.
func (x *exchange) parseHistory() (query, history.Query, error) {
	q := query{limit: wire.DefaultList, stream: wantsStream(x.r), changed: x.caller.Changed()}
	chosen := history.Query{Limit: historyPage}
	err := parseParameters(x.r, map[string]func(string) error{
		"resource": func(v string) error { chosen.Resource = v; return validName(v) },
		"before": func(v string) (err error) {
			chosen.Before, err = strconv.ParseInt(v, 10, 64)
			if err != nil || chosen.Before < 1 {
				return errors.New("want the number of an event")
			}
			return nil
		},
		"sinceMs": func(v string) error {
			ago, err := millis(v)
			if err == nil && ago == 0 {
				err = errors.New("want 1 at least: nothing is newer than 0")
			}
			chosen.Since = time.Now().Add(-ago)
			return err
		},
		"limit": q.setLimit,
	})
	if err == nil && chosen.Resource == "" {
		err = fmt.Errorf("%w: the parameter %q is missing", driver.ErrInvalid, "resource")
	}
	return q, chosen, err
}

// historyEvent returns the event for JSON. The token is for those who may force.
func historyEvent(e history.Event, now time.Time, named bool) wire.HistoryEvent {
	w := wire.HistoryEvent{
		Number: e.Number, At: e.At.UTC(), AgoMs: wire.MillisOf(e.Ago(now)), WithinMs: wire.MillisKnown(e.Within), Event: string(e.Kind),
		Resource: e.Resource, Ref: e.Ref, Mode: e.Mode, Limit: wire.LimitOf(e.Mode, e.Limit), Owner: e.Owner, Host: e.Host, Comment: e.Comment,
		HeldMs: wire.MillisKnown(e.Held), RenewedAgoMs: wire.MillisKnown(e.RenewedAgo), Caller: e.Caller, Reason: e.Reason,
	}
	if named {
		w.Token = e.Token
	}
	return w
}

func keptOf(s history.State, now time.Time) wire.Kept {
	k := wire.Kept{
		Server: s.Name, Since: s.Since.UTC(), SinceAgoMs: wire.MillisOf(now.Sub(s.Since)), Dropped: s.Dropped,
		Blind: !s.Looks || s.Cut || s.LooksFail != nil,
	}
	if s.Err != nil {
		k.FailingMs = wire.MillisKnown(now.Sub(s.Failing))
	}
	if s.Period > 0 {
		k.PeriodMs = wire.MillisKnown(s.Period)
	}
	k.Gaps = make([]wire.HistoryGap, len(s.Gaps))
	for i, g := range s.Gaps {
		gap := wire.HistoryGap{From: g.From.UTC(), LengthMs: wire.MillisOf(max(now.Sub(g.From), 0)), Cause: string(g.Cause)}
		if !g.To.IsZero() {
			gap.To, gap.LengthMs = new(g.To.UTC()), wire.MillisOf(g.To.Sub(g.From))
		}
		k.Gaps[i] = gap
	}
	return k
}
