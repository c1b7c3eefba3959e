package wire

import "github.com/holdfast-go/holdfast/driver"

// Traits are the traits of the store behind the server, as the command prints them, and
// the limits of the server.
type Traits struct {
	traits
	// MaxWaitMs is the longest time that the server waits for a lock.
	MaxWaitMs Millis `json:"maxWaitMs"`
}

// traits has the fields of driver.Traits.
type traits struct {
	Name        string          `json:"name"`
	Reach       driver.Reach    `json:"reach"`
	ServerClock bool            `json:"serverClock"`
	Notifies    bool            `json:"notifies"`
	Queue       bool            `json:"queue"`
	Durable     bool            `json:"durable"`
	Shared      bool            `json:"shared"`
	Sweeps      bool            `json:"sweeps"`
	Fencing     driver.Fencing  `json:"fencing"`
	Failover    driver.Failover `json:"failover"`
}

// TraitsOf returns the traits for JSON.
func TraitsOf(t driver.Traits) Traits { return Traits{traits: traits(t)} }

// Driver returns the traits.
func (t Traits) Driver() driver.Traits { return driver.Traits(t.traits) }
