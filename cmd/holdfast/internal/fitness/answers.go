package fitness

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

func (t *twin) same(got, want string) {
	if got != want {
		t.differs(got, want)
	}
}

func (t *twin) differs(got, want string) {
	if !t.placed.IsZero() && time.Since(t.placed) >= driver.FairPlaceTTL {
		t.late = true // a place may have ended in one of the two stores
		return
	}
	t.wrong = fmt.Sprintf("%s: the answer is %s, and should be %s", t.doing, got, want)
}

// left says how much time is left. It is about what it should be if the difference may be
// due to the store's answers taking their time.
func (t *twin) left(got, want time.Duration) string {
	off := (got - want).Abs()
	if got == driver.Unknown || got > 0 == (want > 0) && (got == driver.Forever) == (want == driver.Forever) && off <= time.Second+4*t.slowest {
		got = want
	}
	switch {
	case got == driver.Forever:
		return "no end"
	case got <= 0:
		return "no time left"
	}
	return got.Round(time.Millisecond).String() + " left"
}

func (t *twin) grant(g driver.Grant, err error, want driver.Grant) string {
	if err == nil {
		return "granted, " + t.left(g.Left, want.Left)
	}
	var held *driver.HeldError
	if !errors.As(err, &held) {
		return "refused, without saying by whom"
	}
	position, waiters := held.Position, held.Waiters
	if !t.traits.Queue {
		position, waiters = 0, 0
	}
	return fmt.Sprintf("refused, position %d among %d waiters, %d ahead, by itself: %v, because of the limit of others: %v",
		position, waiters, len(held.Ahead), held.BySelf, held.LimitDiffers)
}

func (t *twin) renewed(r, want driver.RenewResult) string {
	text := "lost"
	if r.Err == nil {
		text = "renewed, " + t.left(r.Left, want.Left)
		if t.traits.Queue {
			text += fmt.Sprintf(", %d wait", r.Waiters)
		}
	}
	return text
}

func ended(r, _ driver.ReleaseResult) string {
	if r.Found {
		return "found and released"
	}
	return "not there"
}

// holds describes the holds of a record. want are those of the model.
func (t *twin) holds(hs, want []driver.Status) string {
	if len(hs) == 0 {
		return "that nobody holds it"
	}
	texts := make([]string, len(hs))
	for i, h := range hs {
		texts[i] = t.status(h, want)
	}
	slices.Sort(texts)
	return "a record of " + strings.Join(texts, " and ")
}

func (t *twin) status(h driver.Status, want []driver.Status) string {
	if h.HoldID.IsZero() && h.LockID == "" && len(want) == 1 { // a server does not show whose it is
		h.HoldID, h.LockID = want[0].HoldID, want[0].LockID
		h.Token = cmp.Or(h.Token, want[0].Token)
	}
	w := h
	if i := slices.IndexFunc(want, func(w driver.Status) bool { return w.HoldID == h.HoldID }); i >= 0 {
		w = want[i]
	}
	text := fmt.Sprintf("the %v hold of %s (%s %s %s), %s, limit %d, takeover delay %v, renewed: %v, released: %v", h.Mode, h.LockID,
		owner(h.Owner), h.Host, h.Comment, t.left(h.Left, w.Left), h.Limit, max(h.TakeoverDelay, 0), !h.Renewed.IsZero(), h.Released)
	if h.HoldID != w.HoldID {
		text += ", with a hold ID that nobody has asked for"
	}
	if t.traits.Fencing != driver.FencingNone && h.Token != w.Token {
		text += ", with a token that was not granted"
	}
	return text
}

// owner is what the request had. A server puts the name of its caller before it.
func owner(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }

func (t *twin) places(ps, want []driver.Place) string {
	if len(ps) == 0 {
		return "that nobody waits"
	}
	var texts []string
	for i, p := range ps {
		w := p
		if i < len(want) {
			w = want[i]
		}
		texts = append(texts, fmt.Sprintf("%s (%s %s) for an %v lock at %d, %s, fair: %v",
			cmp.Or(p.LockID, w.LockID), owner(p.Owner), p.Host, p.Mode, p.Position, t.left(p.Left, w.Left), p.Fair))
	}
	return "a queue of " + strings.Join(texts, " and ")
}
