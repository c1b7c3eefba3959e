package wire

import "github.com/holdfast-go/holdfast/driver"

// Traits are the traits of the store behind the server, as the command prints them, and
// the limits of the server.
type Traits struct {
	Name        string `json:"name"`
	Reach       string `json:"reach"`
	ServerClock bool   `json:"serverClock"`
	Notifies    bool   `json:"notifies"`
	Queue       bool   `json:"queue"`
	Durable     bool   `json:"durable"`
	Shared      bool   `json:"shared"`
	Sweeps      bool   `json:"sweeps"`
	Fencing     string `json:"fencing"`
	Failover    string `json:"failover"`
	// MaxWaitMs is the longest time that the server waits for a lock.
	MaxWaitMs Millis `json:"maxWaitMs"`
}

// TraitsOf returns the traits for JSON.
func TraitsOf(t driver.Traits) Traits {
	return Traits{
		Name: t.Name, Reach: string(t.Reach), ServerClock: t.ServerClock, Notifies: t.Notifies, Queue: t.Queue,
		Durable: t.Durable, Shared: t.Shared, Sweeps: t.Sweeps, Fencing: string(t.Fencing), Failover: string(t.Failover),
	}
}

// Driver returns the traits.
func (t Traits) Driver() driver.Traits {
	return driver.Traits{
		Name: t.Name, Reach: driver.Reach(t.Reach), ServerClock: t.ServerClock, Notifies: t.Notifies, Queue: t.Queue,
		Durable: t.Durable, Shared: t.Shared, Sweeps: t.Sweeps, Fencing: driver.Fencing(t.Fencing), Failover: driver.Failover(t.Failover),
	}
}
