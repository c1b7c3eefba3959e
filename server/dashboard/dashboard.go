package dashboard

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"log/slog"
	"mime"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/server"
	"github.com/holdfast-go/holdfast/server/access"
	"github.com/holdfast-go/holdfast/server/budget"
	"github.com/holdfast-go/holdfast/server/front"
	"github.com/holdfast-go/holdfast/server/health"
	"github.com/holdfast-go/holdfast/server/history"
	"github.com/holdfast-go/holdfast/server/sight"
)

// Options change what New makes. The zero value of each is its default.
type Options struct {
	// Identify finds out who sent a request, and so what the page shows and lets do: only
	// resources on which the caller may look, and a button to release by force where it may
	// force. It must not trust what any page can make a browser send: put
	// http.CrossOriginProtection in front. Default: a caller that may look at everything.
	Identify access.Identify
	// Login lets callers sign in with their tokens. Default: there is no such form.
	Login Login
	// Looker looks at the store. Default: one of its own, which ends with Close.
	Looker *sight.Looker
	// Health is what is known of the store, which each page says first. A Looker of its own
	// notes its calls in it. Default: what that one finds out.
	Health *health.Log
	// History has what became of holds. The Dashboard shows it, and notes in it what is done
	// by force. It stays the caller's to close. Default: there is none.
	History *history.Log
	// Budget is what each caller may do. It should be that of packages server and front, too.
	// Default: one of its own.
	Budget *budget.Budget
	// Audit is told of what is done by force before it is done: it is refused if the error is
	// not nil. AuditErr returns why the audit cannot be written now, which each page says.
	Audit    func(server.Event) error
	AuditErr func() error
	// AuthErr returns why the rules of callers cannot be read now, which operators are told.
	AuthErr func() error
	// Name is what the pages call the store, and Version the version of the program. They must
	// have no secret in them. The foot of each page has them, with the name of the host.
	Name, Version string
	// Logger gets what an operator should know. Default: nothing is logged.
	Logger *slog.Logger
}

// Login signs callers in, so that their browsers need not keep a token.
type Login interface {
	// SignIn answers with a cookie by which Options.Identify knows the caller. The error
	// wraps access.ErrAnonymous if nobody has the token, and ErrTooOften if the address has
	// tried too many.
	SignIn(w http.ResponseWriter, r *http.Request, token string) error
	// SignOut takes the cookie away.
	SignOut(w http.ResponseWriter)
}

// ErrTooOften says that an address has tried too many tokens.
var ErrTooOften = errors.New("too many tokens from this address")

// Dashboard is a http.Handler. All methods may be called concurrently.
type Dashboard struct {
	opts   Options
	looker *sight.Looker // that of opts, or its own
	forcer server.Forcer
	routes map[string]route
	host   string
	since  time.Time

	pages pages
	life  context.Context
	end   context.CancelFunc
	board struct {
		sync.Mutex
		*board
		fresh map[string]*sight.Sight // of resources that were looked at since, alone
		reads uint64                  // how many there were
	}
}

// route is what is served at a path. All paths are of one level, so that links work wherever
// the Dashboard is mounted.
type route struct {
	method string
	page   bool // it is for people who are signed in, by its address
	serve  func(*visit)
}

// New returns a Dashboard of the store, which stays the caller's to close, after the
// Dashboard.
func New(store driver.Store, opts *Options) (*Dashboard, error) {
	if store == nil {
		return nil, errors.New("holdfast dashboard: no store")
	}
	d := &Dashboard{pages: newPages(), since: time.Now()}
	if opts != nil {
		d.opts = *opts
	}
	if d.opts.Identify == nil {
		d.opts.Identify = func(*http.Request) (access.Caller, error) { return access.Onlooker(), nil }
	}
	if d.opts.Budget == nil {
		d.opts.Budget = budget.New(nil)
	}
	d.opts.Logger = cmp.Or(d.opts.Logger, slog.New(slog.DiscardHandler))
	if d.opts.Health == nil {
		d.opts.Health = health.New()
	}
	if d.looker = d.opts.Looker; d.looker == nil {
		known := d.opts.Health
		d.looker = sight.New(store, &sight.Options{
			Skip: driver.Internal, StoreCall: known.StoreCall, Answered: known.Answered, Logger: d.opts.Logger,
		})
	}
	d.forcer = server.Forcer{Store: store, Audit: d.opts.Audit, History: d.opts.History, StoreCall: d.opts.Health.StoreCall}
	d.host, _ = os.Hostname() // without one it has no name
	d.board.fresh = map[string]*sight.Sight{}
	d.life, d.end = context.WithCancel(context.Background())
	d.routes = map[string]route{
		"/":         {http.MethodGet, true, d.overview},
		"/resource": {http.MethodGet, true, d.resource},
		"/history":  {http.MethodGet, true, d.historyPage},
		"/release":  {http.MethodGet, true, d.releasePage},
		"/events":   {http.MethodGet, false, d.events},
		"/look":     {http.MethodPost, false, d.lookNow},
		"/force":    {http.MethodPost, false, d.force},
		"/app.css":  {http.MethodGet, false, d.asset},
		"/app.js":   {http.MethodGet, false, d.asset},
	}
	if d.opts.Login != nil {
		d.routes["/login"] = route{http.MethodGet, false, d.loginPage}
		d.routes["/sign-in"] = route{http.MethodPost, false, d.signIn}
		d.routes["/sign-out"] = route{http.MethodPost, false, d.signOut}
	}
	return d, nil
}

// Close ends live pages and looks at the store.
func (d *Dashboard) Close() {
	d.end()
	if d.opts.Looker == nil {
		d.looker.Close()
	}
}

// Serves reports whether there is something at the path.
func (d *Dashboard) Serves(path string) bool {
	_, ok := d.routes[path]
	return ok
}

// policy keeps pages from loading or sending anything elsewhere, and from being shown within
// another page.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; " +
	"base-uri 'none'; frame-ancestors 'none'"

// ServeHTTP implements http.Handler.
func (d *Dashboard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	front.Isolate(w.Header())
	w.Header().Set("Content-Security-Policy", policy)
	v := &visit{d: d, w: w, r: r, began: time.Now()}
	at, ok := d.routes[r.URL.Path]
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case !ok:
		v.fail(http.StatusNotFound, "There is no such page.")
	case r.Method != at.method && (r.Method != http.MethodHead || !at.page):
		w.Header().Set("Allow", at.method)
		v.fail(http.StatusMethodNotAllowed, "This address takes a "+at.method+".")
	case at.method == http.MethodPost && kind != "application/json":
		v.fail(http.StatusUnsupportedMediaType, "A POST must have the type application/json.")
	case !v.identified():
	case at.page:
		d.page(v, at.serve)
	default:
		at.serve(v)
	}
}

//go:embed static
var static embed.FS

// asset serves a style sheet or a script. Each program has its own: they are asked for again
// with each page, and are small.
func (d *Dashboard) asset(v *visit) {
	body, _ := static.ReadFile("static" + v.r.URL.Path) // there is one for each route to here
	kinds := map[string]string{"/app.css": "text/css; charset=utf-8", "/app.js": "text/javascript; charset=utf-8"}
	v.w.Header().Set("Content-Type", kinds[v.r.URL.Path])
	v.write(http.StatusOK, body)
}
