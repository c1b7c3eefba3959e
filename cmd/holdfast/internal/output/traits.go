package output

import (
	"github.com/holdfast-go/holdfast/driver"
)

// Traits are the traits of a store in JSON. Scripts read it: a field may be added,
// none changed.
type Traits struct {
	Name        string `json:"name"`
	Reach       string `json:"reach"`
	ServerClock bool   `json:"serverClock"`
	Notifies    bool   `json:"notifies"`
	Queue       bool   `json:"queue"`
	Durable     bool   `json:"durable"`
	Shared      bool   `json:"shared"`
	Fencing     string `json:"fencing"`
	Failover    string `json:"failover"` // empty: there is nothing to fail over to
}

// TraitsOf returns the traits for JSON.
func TraitsOf(t driver.Traits) Traits {
	return Traits{
		Name: t.Name, Reach: string(t.Reach), ServerClock: t.ServerClock, Notifies: t.Notifies, Queue: t.Queue,
		Durable: t.Durable, Shared: t.Shared, Fencing: string(t.Fencing), Failover: string(t.Failover),
	}
}
