package driver

import (
	"testing"
	"time"
)

func TestAges(t *testing.T) {
	seen := time.Date(2031, 5, 6, 7, 8, 9, 0, time.UTC)
	at := func(ago time.Duration) time.Time { return seen.Add(-ago) }
	for name, c := range map[string]struct {
		got, want time.Duration
	}{
		"hold":               {Status{Seen: seen, Created: at(time.Hour)}.Age(), time.Hour},
		"hold, just granted": {Status{Seen: seen, Created: seen}.Age(), 0},
		"hold, later":        {Status{Seen: seen, Created: at(-time.Second)}.Age(), 0},
		"hold, not seen":     {Status{Created: seen}.Age(), Unknown},
		"hold, not created":  {Status{Seen: seen}.Age(), Unknown},
		"renewed":            {Status{Seen: seen, Renewed: at(time.Minute)}.RenewedAgo(), time.Minute},
		"renewed later":      {Status{Seen: seen, Renewed: at(-1)}.RenewedAgo(), 0},
		"never renewed":      {Status{Seen: seen, Created: at(time.Hour)}.RenewedAgo(), Unknown},
		"place":              {Place{Seen: seen, Since: at(time.Hour)}.Age(), time.Hour},
		"place, not seen":    {Place{Since: seen}.Age(), Unknown},
		"asked":              {Place{Seen: seen, Asked: at(time.Minute)}.AskedAgo(), time.Minute},
		"asked later":        {Place{Seen: seen, Asked: at(-time.Minute)}.AskedAgo(), 0},
		"asked, not seen":    {Place{Asked: seen}.AskedAgo(), Unknown},
	} {
		if c.got != c.want {
			t.Errorf("%s: %v, want %v", name, c.got, c.want)
		}
	}
}
