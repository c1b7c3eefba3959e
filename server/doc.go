// Package server serves a store of locks over HTTP, so that programs in every language take
// the same locks as those that reach the store themselves. It is what `holdfast serve` runs,
// and a http.Handler for a server of one's own:
//
//	s, err := server.New(store, &server.Options{Identify: front.CallerOf})
//	if err != nil { … }
//	defer s.Close()
//	handler, err := front.Handler(s, &front.Options{Store: s.StoreID}) // who may come in
//	if err != nil { … }
//	err = front.Server(handler, nil).Serve(listener)
//
// A caller acquires a resource by one POST, renews the hold while it works, and releases it:
//
//	curl -H 'Content-Type: application/json' -d '{"resource":"nightly","waitMs":20000}' http://127.0.0.1:4653/v1/acquire
//
// Package wire describes requests and answers as Go types, and openapi.yaml, which the
// server answers too, for all other languages.
//
// # What the server is
//
// It keeps no lock itself: the store does. Any number of servers may stand in front of one
// store, and may be restarted at any time. What a server has in memory is only who waits at
// present: the waiters for one resource form a line, first come, first served, and only its
// head asks the store.
//
// The maker of the hold ID of an acquire cleans up after it. If the request has none, the
// server makes one, and releases the hold if the caller hangs up before the first byte of
// the answer. If the caller made it, the server releases nothing: the caller repeats the
// request with the same hold ID, here or at another server of the store, or releases the
// hold. A server that cleaned up would end the hold that the second try got.
//
// # What it is not
//
// It does not renew for its callers, and does not know whether they still work. It decides
// by access.Caller who may do what, but finds out by Options.Identify who sent a request.
// Without that, everybody who reaches the handler may lock and look. Package front has the
// checks that every listener needs, and without which any web page that a user opens could
// release locks on the loopback interface: names of the server, media types, origins, TLS. In a
// mux of one's own, the handler that front.Handler returns goes inside http.StripPrefix, right
// around the Server. The example of package front shows it.
package server
