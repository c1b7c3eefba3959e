package driver

import "time"

// Age returns how long the hold has existed: from Created to Seen. It is Unknown if one of
// them is zero.
func (s Status) Age() time.Duration { return ago(s.Created, s.Seen) }

// RenewedAgo returns how long before Seen the hold was last renewed. It is Unknown if the
// hold was never renewed or Seen is zero.
func (s Status) RenewedAgo() time.Duration { return ago(s.Renewed, s.Seen) }

// Age returns how long the waiter has had the place: from Since to Seen. It is Unknown if one
// of them is zero.
func (p Place) Age() time.Duration { return ago(p.Since, p.Seen) }

// AskedAgo returns how long before Seen the store last noted that the waiter asked for its
// place. It is Unknown if one of the times is zero. AskedAgo plus Left is how long the place
// is kept after each request.
func (p Place) AskedAgo() time.Duration { return ago(p.Asked, p.Seen) }

// ago returns how long t was before seen, at least 0: a clock may have been set back, or a
// node may be behind.
func ago(t, seen time.Time) time.Duration {
	if t.IsZero() || seen.IsZero() {
		return Unknown
	}
	return max(seen.Sub(t), 0)
}
