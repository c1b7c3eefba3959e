package model

import "github.com/holdfast-go/holdfast/driver"

// RecordOf returns a record in which these holds block, and these places are live, at the
// time 0, so that a caller can decide on what a store listed.
func RecordOf(holds []driver.Status, places []driver.Place) Record {
	var r Record
	for _, s := range holds {
		r.Holds = append(r.Holds, Hold{LockID: s.LockID, HoldID: s.HoldID, Mode: s.Mode, Limit: s.Limit, Token: s.Token, End: NoEnd})
	}
	for _, p := range places {
		r.Places = append(r.Places, Place{ID: p.ID, LockID: p.LockID, Mode: p.Mode, Limit: p.Limit, Fair: p.Fair, Until: NoEnd})
	}
	return r
}
