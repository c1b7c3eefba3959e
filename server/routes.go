package server

import (
	_ "embed"
	"net/http"

	"github.com/holdfast-go/holdfast/httplock/wire"
)

// route is what is served at a path.
type route struct {
	method string
	// open routes are for everybody, whether the store is ready or not. They ignore parameters,
	// which probes may add.
	open  bool
	query bool // it takes parameters
	// same routes are refused while the store is another one: what that says of a resource,
	// as that it is free, is not so of the old one. Acquires look at that themselves.
	same  bool
	serve func(*exchange)
}

// makeRoutes maps whole paths, and not a http.ServeMux: that answers an unclean path with a
// redirect, and a POST that is redirected may become a GET. There is no name in a path, so
// there is nothing to match.
func (s *Server) makeRoutes() map[string]route {
	return map[string]route{
		wire.AcquirePath:      {http.MethodPost, false, false, false, s.acquire},
		wire.RenewPath:        {http.MethodPost, false, false, false, s.renew},
		wire.ReleasePath:      {http.MethodPost, false, false, false, s.release},
		wire.ForceReleasePath: {http.MethodPost, false, false, true, s.forceRelease},
		wire.SweepPath:        {http.MethodPost, false, false, true, s.sweep},
		wire.HoldsPath:        {http.MethodGet, false, true, true, s.holds},
		wire.WaitersPath:      {http.MethodGet, false, true, true, s.waiters},
		wire.WatchPath:        {http.MethodGet, false, true, false, s.watch},
		wire.HistoryPath:      {http.MethodGet, false, true, false, s.history},
		wire.TraitsPath:       {http.MethodGet, false, false, false, s.traits},
		"/healthz":            {http.MethodGet, true, false, false, s.healthz},
		"/readyz":             {http.MethodGet, true, false, false, s.readyz},
		"/openapi.yaml":       {http.MethodGet, true, false, false, s.openAPI},
	}
}

// Serves reports whether there is something at the path.
func (s *Server) Serves(path string) bool {
	_, ok := s.routes[path]
	return ok
}

func (s *Server) healthz(x *exchange) { x.answer(map[string]string{"status": "ok"}) }

// readyz fails until the store was prepared and from the beginning of the end on, and if
// the store has become another one. It does not fail if the store does not answer for a
// while: all servers would be taken out at once.
func (s *Server) readyz(x *exchange) {
	switch {
	case s.draining.Load():
		x.refuse(wire.KindDraining, "the server ends")
	case !s.identity.ready():
		x.refuse(wire.KindUnknown, s.notReady())
	default:
		x.answer(map[string]string{"status": "ready"})
	}
}

func (s *Server) traits(x *exchange) {
	t := wire.TraitsOf(s.store.Traits())
	t.MaxWaitMs = wire.MillisOf(s.opts.MaxWait)
	x.answer(t)
}

//go:embed openapi.yaml
var openAPI string

// OpenAPI returns the description of the API in OpenAPI 3.1.
func OpenAPI() string { return openAPI }

func (s *Server) openAPI(x *exchange) {
	x.send(http.StatusOK, "application/yaml", []byte(openAPI))
}
