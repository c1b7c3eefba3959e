package holdfast

import (
	"context"
	"fmt"

	"github.com/holdfast-go/holdfast/driver"
)

// under is what Do and Bind put into a ctx: the hold that the work with that ctx is
// done under, and what the ctx was under before. Each Client has a key of its own.
type under struct {
	hold  *Hold
	outer *under
}

type underKey struct{ client *Client }

func (c *Client) under(ctx context.Context) *under {
	u, _ := ctx.Value(underKey{c}).(*under)
	return u
}

// nested looks whether work under a hold of the resource asks for it again. What
// could not be granted before that work has ended is refused. A further shared
// hold can: shares is then true.
func (c *Client) nested(ctx context.Context, q driver.AcquireRequest) (shares bool, err error) {
	var held []*Hold
	refused := q.Mode == Exclusive
	for u := c.under(ctx); u != nil; u = u.outer {
		if h := u.hold; h.ref.Resource == q.Resource && h.Left() > 0 {
			held = append(held, h)
			refused = refused || h.mode == Exclusive
		}
	}
	if len(held) == 0 {
		return false, nil
	}
	if !refused && (q.Limit == 0 || len(held) < q.Limit) {
		return true, nil
	}
	e := &nestedError{HeldError{Resource: q.Resource, RetryAfter: driver.Unknown, BySelf: true}}
	for _, h := range held {
		e.held.Holders = append(e.held.Holders, Status{
			Resource: h.ref.Resource, LockID: h.ref.LockID, HoldID: h.ref.HoldID, Mode: h.mode, Token: h.ref.Token,
			Left: h.Left(),
		})
	}
	return false, e
}

// nestedError is a *HeldError that says in what way one holds the resource oneself.
type nestedError struct{ held HeldError }

func (e *nestedError) Error() string {
	return fmt.Sprintf("holdfast: %q is held: you hold it yourself, by the ctx that Do or Bind gave", e.held.Resource)
}

func (e *nestedError) Unwrap() error { return &e.held }
