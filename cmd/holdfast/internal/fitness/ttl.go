package fitness

import "time"

// minSensibleTTL is for the holder, whose process may have to wait that long for a
// processor.
const minSensibleTTL = time.Second

// ttlRoundTrips is how many of the slowest answers fit into a sensible TTL. The
// Client renews from a third of the TTL on, and gives up a sixteenth before its end.
// So 18 of them fit in between: a renewal may fail several times, or take several
// times as long as the slowest one that was measured.
const ttlRoundTrips = 30

// sensibleTTL returns the shortest TTL that makes sense for a store whose slowest
// answer took that long, rounded up to a round number.
func sensibleTTL(slowest time.Duration) time.Duration {
	need := max(minSensibleTTL, ttlRoundTrips*slowest)
	unit := time.Second
	for unit < time.Hour && need > 30*unit {
		unit *= 60
	}
	for _, n := range []int{1, 2, 3, 5, 10, 15, 20, 30} {
		if ttl := time.Duration(n) * unit; need <= ttl {
			return ttl
		}
	}
	return need.Truncate(unit) + unit
}
