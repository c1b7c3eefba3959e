package model

import (
	"encoding/json"
	"fmt"

	"github.com/holdfast-go/holdfast/driver"
)

// encodedPlace is the JSON form of a place, a format like that of holds.
type encodedPlace struct {
	ID     driver.PlaceID `json:"placeId"`
	LockID string         `json:"lockId"`
	Mode   *driver.Mode   `json:"mode"`
	Limit  *int           `json:"limit,omitempty"` // of a shared request; absent: unknown
	Owner  string         `json:"owner,omitempty"`
	Host   string         `json:"host,omitempty"`
	Since  *Time          `json:"since,omitempty"` // absent in a request, like the next two
	Asked  *Time          `json:"asked,omitempty"`
	Until  *Time          `json:"until,omitempty"`
	Fair   bool           `json:"fair,omitempty"`
}

// EncodePlaces returns the queue as a JSON array, with times in microseconds.
func EncodePlaces(places []Place) ([]byte, error) {
	out := make([]encodedPlace, len(places))
	for i := range places {
		p := &places[i]
		out[i] = p.encode()
		out[i].Since, out[i].Asked, out[i].Until = &p.Since, &p.Asked, &p.Until
	}
	return json.Marshal(out)
}

// EncodePlace returns the place of a request as JSON without its times, which the server
// adds.
func EncodePlace(q driver.AcquireRequest) (string, error) {
	p := placeOf(&q)
	text, err := json.Marshal(p.encode())
	return string(text), err
}

func (p *Place) encode() encodedPlace {
	e := encodedPlace{ID: p.ID, LockID: p.LockID, Mode: &p.Mode, Owner: p.Owner, Host: p.Host, Fair: p.Fair}
	if p.Mode == driver.Shared && p.Limit != driver.LimitUnknown {
		e.Limit = &p.Limit
	}
	return e
}

// DecodePlaces parses the text of EncodePlaces. The error is driver.ErrDamaged if the text is
// not a valid queue, because the queue decides about grants.
func DecodePlaces(data []byte) ([]Place, error) {
	var in []encodedPlace
	if err := json.Unmarshal(data, &in); err != nil {
		return nil, fmt.Errorf("%w: queue: %v", driver.ErrDamaged, err)
	}
	if len(in) == 0 {
		return nil, nil
	}
	places := make([]Place, len(in))
	for i, e := range in {
		if e.Mode == nil || e.Since == nil || e.Asked == nil || e.Until == nil {
			return nil, fmt.Errorf("%w: place %d lacks its mode or a time", driver.ErrDamaged, i)
		}
		p := Place{
			ID: e.ID, LockID: e.LockID, Mode: *e.Mode, Limit: LimitOf(*e.Mode, e.Limit), Owner: e.Owner, Host: e.Host,
			Since: *e.Since, Asked: *e.Asked, Until: *e.Until, Fair: e.Fair,
		}
		if err := p.check(e.Limit); err != nil {
			return nil, fmt.Errorf("%w: place %d: %v", driver.ErrDamaged, i, err)
		}
		places[i] = p
	}
	return places, nil
}

func (p *Place) check(limit *int) error {
	switch {
	case p.ID.IsZero():
		return fmt.Errorf("no place ID")
	case driver.ValidLockID(p.LockID) != nil:
		return fmt.Errorf("lock ID %q", p.LockID)
	case limit != nil && (*limit < 0 || p.Mode != driver.Shared):
		return fmt.Errorf("limit %d of an %v request", *limit, p.Mode)
	case p.Since < 0 || p.Asked < 0 || p.Until < 0:
		return fmt.Errorf("a time before 1970")
	case p.Until > lastEnd:
		return fmt.Errorf("kept until %d", p.Until)
	}
	return nil
}
