package drivertest

import "time"

// Within replaces how long the suite waits for events that must come, for tests of events
// that do not.
func Within(d time.Duration) { within = d }
