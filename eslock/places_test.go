package eslock

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/eslock/internal/rest"
)

// asked sends the request, and returns its parameters and what it asks for.
func asked(t *testing.T, q driver.AcquireRequest) (params map[string]any, text string) {
	t.Helper()
	f := always(503, explained("unavailable_shards_exception", "x"))
	if _, err := New(f, nil).Acquire(t.Context(), q); err == nil {
		t.Fatal("granted")
	}
	text = f.requests()[0].Body
	_, params = bodyOf(t, text)
	return params, text
}

// Who wants no place sends nothing about one, and asks for no holds.
func TestPlacesAreSentIfWanted(t *testing.T) {
	q := request("r", "a")
	params, text := asked(t, q)
	for _, name := range []string{"place", "placeTtl"} {
		if value, is := params[name]; is {
			t.Errorf("%s is %v", name, value)
		}
	}
	if strings.Contains(text, "holdfast.holds") {
		t.Error("it asks for the holds")
	}
	q.Mode, q.Limit, q.Fair, q.Place = driver.Shared, 3, true, driver.PlaceID{1}
	q.Details = driver.Details{Owner: strings.Repeat("ü", 40), Host: "h", Comment: "not kept"}
	params, text = asked(t, q)
	want := map[string]any{
		"placeId": "010000000000000000000000", "lockId": "a", "mode": "shared", "limit": "3", "owner": strings.Repeat("ü", 32), "host": "h", "fair": "true",
	}
	got := map[string]any{}
	for name, value := range params["place"].(map[string]any) {
		got[name] = fmt.Sprint(value)
	}
	if !maps.Equal(got, want) || fmt.Sprint(params["placeTtl"]) != "10000" {
		t.Errorf("place %v, kept for %v", got, params["placeTtl"])
	}
	if !strings.Contains(text, "holdfast.holds") {
		t.Error("it does not ask for the holds")
	}
	q.Fair = false
	if params, _ = asked(t, q); fmt.Sprint(params["placeTtl"]) != "60000" {
		t.Errorf("a plain place is kept for %v", params["placeTtl"])
	}
}

// A refusal that has stored a place is no grant. It has the holds that are stored.
func TestRefusalThatIsStored(t *testing.T) {
	q := request("r", "a")
	q.Place = driver.PlaceID{1}
	var refused *driver.HeldError
	_, err := New(always(200, refusedAt(1, held("b"), waiting("c"))), nil).Acquire(t.Context(), q)
	if !errors.As(err, &refused) || refused.Position != 1 || refused.Waiters != 7 || len(refused.Holders) != 1 || refused.Holders[0].LockID != "b" ||
		len(refused.Ahead) != 1 || refused.Ahead[0].LockID != "c" || refused.Ahead[0].Left != time.Hour || refused.RetryAfter != time.Hour {
		t.Errorf("refused with %+v, %v", refused, err)
	}
	granted := strings.Replace(refusedAt(0, held("b"), ""), "[-1]", fmt.Sprintf("[%d]", nowMillis+1000), 1)
	if _, err := New(always(200, granted), nil).Acquire(t.Context(), q); err == nil || errors.Is(err, driver.ErrHeld) {
		t.Errorf("granted as well: error %v", err)
	}
	rs, err := New(always(200, refusedAt(0, held("a"), "")), nil).Renew(t.Context(), renewals("a"))
	if err != nil || rs[0].Err == nil || errors.Is(rs[0].Err, driver.ErrLost) {
		t.Errorf("a renewal with that answer: %+v, %v", rs, err)
	}
}

// A refusal is known without the place, if that cannot be written.
func TestRefusalWithoutItsPlace(t *testing.T) {
	q := request("r", "a")
	q.Place = driver.PlaceID{1}
	for name, c := range map[string]struct {
		refused  string // the answer to a request that writes the place
		answer   string // to one that does not
		requests int
		says     error
	}{
		"conflicts": {
			failed("r", 409, rest.Conflict, "current version differs"), reply(noop, held("b"), `,"position":1,"waiters":7,"ahead":[`+waiting("c")+`]`),
			placeTries + 1, driver.ErrHeld,
		},
		"mapping": {
			failed("r", 400, "document_parsing_exception", "failed to parse field"), reply(noop, held("b"), `,"position":1,"waiters":7,"ahead":[`+waiting("c")+`]`),
			2, driver.ErrHeld,
		},
		"free meanwhile":        {failed("r", 409, rest.Conflict, "x"), reply(updated, "", ""), placeTries + 1, nil},
		"mapping, also without": {failed("r", 400, "mapper_parsing_exception", "x"), bulk(failed("r", 400, "mapper_parsing_exception", "x")), 2, driver.ErrUnusable},
		// The server has not run the script: another request would tell no more.
		"disk full": {failed("r", 429, blocked, "blocked by: [TOO_MANY_REQUESTS/12/disk usage];"), "", 1, &rest.Error{}},
		"read-only": {failed("r", 403, blocked, "blocked by: [FORBIDDEN/5/index read-only (api)];"), "", 1, driver.ErrUnusable},
		"too many":  {failed("r", 429, "es_rejected_execution_exception", "queue full"), "", 1, &rest.Error{}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{answer: func(_ int, r sent) (int, string) {
					if strings.Contains(r.Body, `"placeTtl":`) {
						return 200, bulk(c.refused)
					}
					return 200, c.answer
				}}
				began := time.Now()
				_, err := New(f, nil).Acquire(t.Context(), q)
				var refused *driver.HeldError
				var e *rest.Error
				switch is := errors.As(err, &refused); {
				case errors.As(c.says, &e):
					if !errors.As(err, &e) || is || errors.Is(err, driver.ErrUnusable) {
						t.Errorf("error %v, want the server's", err)
					}
				case !errors.Is(err, c.says):
					t.Errorf("error %v, want %v", err, c.says)
				case is && (refused.Position != driver.NoPlace || refused.Waiters != 7 || len(refused.Ahead) != 1 || len(refused.Holders) != 1):
					t.Errorf("refused with %+v", *refused)
				}
				requests := f.requests()
				if took := time.Since(began); len(requests) != c.requests || took > driver.FairPlaceTTL/4 {
					t.Errorf("%d requests in %v, want %d", len(requests), took, c.requests)
				}
				if _, params := bodyOf(t, requests[len(requests)-1].Body); params["place"] == nil {
					t.Error("the last request does not name its place, which may be there")
				}
			})
		})
	}
}

// If there are more places ahead than an answer has, one of the others is in the way.
func TestRefusalByMorePlaces(t *testing.T) {
	four := strings.Join([]string{waiting("b"), waiting("c"), waiting("d"), waiting("e")}, ",")
	four = strings.ReplaceAll(four, `"exclusive"`, `"shared","limit":9`)
	q := request("r", "a")
	q.Mode, q.Limit = driver.Shared, 9
	var refused *driver.HeldError
	_, err := New(always(200, reply(noop, "", `,"position":9,"waiters":12,"ahead":[`+four+`]`)), nil).Acquire(t.Context(), q)
	if !errors.As(err, &refused) || refused.Position != driver.NoPlace || refused.Waiters != 12 || len(refused.Ahead) != 4 || refused.LimitDiffers || refused.RetryAfter != 0 {
		t.Errorf("refused with %+v, %v", refused, err)
	}
}

// A place alone is given up by one request: its lock ID's hold is not looked for.
func TestPlaceIsGivenUp(t *testing.T) {
	for _, answer := range []string{answered(`"ends":[-1]`), reply(noop, held("a"), "")} {
		f := always(200, answer)
		rs, err := New(f, nil).Release(t.Context(), []driver.ReleaseRequest{
			{HoldRef: driver.HoldRef{Resource: "r", LockID: "a"}, Place: driver.PlaceID{1}},
		})
		if err != nil || rs[0] != (driver.ReleaseResult{}) {
			t.Errorf("%+v, %v", rs, err)
		}
		sent := f.requests()
		_, params := bodyOf(t, sent[0].Body)
		if ref := params["refs"].([]any)[0].(map[string]any); len(sent) != 1 || ref["place"] != "010000000000000000000000" || ref["holdId"] != "" {
			t.Errorf("%d requests, the first with %v", len(sent), ref)
		}
	}
}

// A renewal has how many wait.
func TestRenewalsOfWaiters(t *testing.T) {
	f := always(200, answered(fmt.Sprintf(`"ends":[%d],"waiters":3`, nowMillis+1000)))
	rs, err := New(f, nil).Renew(t.Context(), renewals("a"))
	if err != nil || rs[0] != (driver.RenewResult{Left: time.Second, Waiters: 3}) {
		t.Errorf("renewed %+v, %v", rs, err)
	}
}
