package drivertest

import "time"

// Within replaces how long the suite waits for what must come, for tests of what
// does not.
func Within(d time.Duration) { within = d }
