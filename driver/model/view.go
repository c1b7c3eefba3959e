package model

import "github.com/holdfast-go/holdfast/driver"

// RecordOf returns a record in which the given holds block and the given places are live at
// time 0, so that a caller can decide about the results of a list.
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
