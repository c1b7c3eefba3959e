package driver

import "time"

// Age is for how long the hold has been there: from Created until Seen. It is Unknown if
// one of them is.
func (s Status) Age() time.Duration { return ago(s.Created, s.Seen) }

// RenewedAgo is how long before Seen the hold was last renewed. It is Unknown if the hold
// was never renewed, or if Seen is not known.
func (s Status) RenewedAgo() time.Duration { return ago(s.Renewed, s.Seen) }

// Age is for how long the waiter has had the place: from Since until Seen. It is Unknown
// if one of them is.
func (p Place) Age() time.Duration { return ago(p.Since, p.Seen) }

// AskedAgo is how long before Seen the store noted that the waiter asked for its place. It
// is Unknown if one of the times is. With Left, it is for how long the place is kept each
// time.
func (p Place) AskedAgo() time.Duration { return ago(p.Asked, p.Seen) }

// ago returns how long t was before seen: 0 if it was not, as on a clock that was set back
// or behind a node with another clock.
func ago(t, seen time.Time) time.Duration {
	if t.IsZero() || seen.IsZero() {
		return Unknown
	}
	return max(seen.Sub(t), 0)
}
