package server

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock/wire"
	"github.com/holdfast-go/holdfast/server/access"
	"github.com/holdfast-go/holdfast/server/history"
)

// historyPage is how many holds are read at a time.
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

	out := x.lister(q, "holds")
	out.last.Resource = chosen.Resource
	err = x.listHistory(out, chosen)
	out.end("history", err, new(keptOf(s.opts.History.State(), time.Now())))
}

// listHistory adds the holds to out, as far as it takes them.
func (x *exchange) listHistory(out *lister, q history.Query) error {
	named := x.caller.May(access.Force, q.Resource)
	for {
		holds, err := x.s.opts.History.Holds(x.r.Context(), q)
		if err != nil {
			return historyError{err}
		}
		now := time.Now()
		for _, h := range holds {
			if err := out.revoked(); err != nil {
				return err
			}
			if !out.add(pastHold(h, now, named)) {
				return nil
			}
			q.Before = h.Number
		}
		if len(holds) < q.Limit {
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
				return errors.New("want the number of a hold")
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

// pastHold returns the hold for JSON. The token is for those who may force.
func pastHold(h history.Hold, now time.Time, named bool) wire.PastHold {
	w := wire.PastHold{
		Number: h.Number, Resource: h.Resource, Ref: h.Ref, Mode: h.Mode, Limit: wire.LimitOf(h.Mode, h.Limit), Owner: h.Owner, Host: h.Host, Comment: h.Comment,
		Began: momentOf(h.Began, now), How: string(h.How), By: h.By, Reason: h.Reason,
	}
	if h.How != "" {
		w.Ended = new(momentOf(h.Ended, now))
	}
	if named {
		w.Token = h.Token
	}
	return w
}

func momentOf(m history.Moment, now time.Time) wire.PastMoment {
	return wire.PastMoment{After: timeOf(m.After), By: m.By.UTC(), ByAgoMs: wire.MillisOf(max(now.Sub(m.By), 0))}
}

// timeOf returns nil for a time that is not known.
func timeOf(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return new(t.UTC())
}

func keptOf(s history.State, now time.Time) wire.Kept {
	k := wire.Kept{
		Server: s.Name, Since: s.Since.UTC(), SinceAgoMs: wire.MillisOf(now.Sub(s.Since)), Removed: timeOf(s.Removed), Dropped: s.Dropped,
		Gaps: []wire.HistoryGap{},
	}
	if s.Err != nil {
		k.FailingMs = new(wire.MillisOf(now.Sub(s.Failing)))
	}
	if s.Period > 0 {
		k.PeriodMs = new(wire.MillisOf(s.Period))
	}
	for _, g := range s.Gaps {
		k.Gaps = append(k.Gaps, wire.HistoryGap{From: g.From.UTC(), To: timeOf(g.To)})
	}
	return k
}
