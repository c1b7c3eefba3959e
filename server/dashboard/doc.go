// Package dashboard shows people the locks of a store in a browser: what is stuck first, who
// waits, for whom, and how long already. It is a http.Handler for any path of a mux:
//
//	locks, err := dashboard.New(store, nil)
//	mux.Handle("/locks/", http.StripPrefix("/locks", locks))
//
// Without Options.Identify everybody may look at everything, and nobody may change anything.
// Pages read without JavaScript; with it they are live. They load nothing from elsewhere.
//
// The store is looked at only while somebody watches, see package sight. A page shows
// durations and no clock times: those of a store's clock and those of a browser's do not
// compare.
package dashboard
