package results

// Recorded is what a campaign leaves: its row in a table, and what happened when.
type Recorded struct {
	Run  Run      `json:"run"`
	Line TimeLine `json:"line"`
}

// TimeLine is who held what when, and the faults across it. Times are milliseconds since
// the first request.
type TimeLine struct {
	Ends   int     `json:"ends"`
	Faults []Fault `json:"faults"`
	Holds  []Held  `json:"holds"`
}

// Fault is one that happened.
type Fault struct {
	Name string `json:"name"`
	From int    `json:"from"`
	To   int    `json:"to"`
}

// Held is a lock that a process went by.
type Held struct {
	Resource string `json:"resource"`
	Process  int    `json:"process"`
	Shared   bool   `json:"shared,omitempty"`
	From     int    `json:"from"`
	To       int    `json:"to"`
}
