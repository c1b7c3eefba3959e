package results

// Recorded is the saved report of a campaign: its row in a table, and its time line.
type Recorded struct {
	Run  Run      `json:"run"`
	Line TimeLine `json:"line"`
}

// TimeLine has the holds and faults of a campaign. Times are milliseconds since the first
// request.
type TimeLine struct {
	Ends   int     `json:"ends"`
	Faults []Fault `json:"faults"`
	Holds  []Held  `json:"holds"`
}

// Fault is a fault that happened.
type Fault struct {
	Name string `json:"name"`
	From int    `json:"from"`
	To   int    `json:"to"`
}

// Held is a period in which a process relied on a lock.
type Held struct {
	Resource string `json:"resource"`
	Process  int    `json:"process"`
	Shared   bool   `json:"shared,omitempty"`
	From     int    `json:"from"`
	To       int    `json:"to"`
}
