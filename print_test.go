package holdfast_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/adapt"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/base"
	"github.com/holdfast-go/holdfast/driver/model"
	"github.com/holdfast-go/holdfast/eslock"
	"github.com/holdfast-go/holdfast/fence/httpfence"
	"github.com/holdfast-go/holdfast/httplock"
	"github.com/holdfast-go/holdfast/memlock"
	"github.com/holdfast-go/holdfast/observe"
)

// unprinted are the exported types that hold neither a hold ID nor a secret, nor anything
// that leads to one or that changes.
var unprinted = []string{
	".LostError", ".Options", ".LockOptions", ".Trace",
	"driver.HoldID", // itself
	"driver.PlaceID", "driver.Details", "driver.Waits", "driver.Place", "driver.Grant", "driver.RenewResult",
	"driver.ReleaseResult", "driver.Traits", "driver.SweepRequest", "driver.SweepResult", "driver.Filter",
	"driver/model.Place", "driver/model.Waits", "driver/base.Line",
	"adapt.MutexOptions", "adapt.NamesOptions", "adapt.JobOptions", "adapt.LockerOptions", "adapt.LeadOptions",
	"observe.Metric", "observe.Options", "observe.Sample", "httplock.HistoryQuery", "memlock.Options", "eslock.Options",
	"fence/httpfence.Token", "fence/httpfence.TransportOptions", "fence/httpfence.Transport",
	"fence/httpfence.Options", "fence/httpfence.Table", // a *sql.DB, and names
}

// Nothing that is exported prints a hold ID or a password, or is read as it changes.
func TestPrinted(t *testing.T) {
	const password = "hunTer2-Xyzzy"
	ctx := t.Context()
	mem := memlock.New(nil)
	c := newClient(t, mem, nil)
	h := lock(t, c, "r", nil)
	id := h.ID()
	ref := driver.HoldRef{Resource: "r", LockID: "id", HoldID: id, Token: h.Token()}
	status := driver.Status{Resource: "r", LockID: "id", HoldID: id, Token: h.Token()}
	info := holdfast.LockInfo{Client: c, Resource: "r", LockID: "id"}
	attempt := holdfast.AttemptStartInfo{LockInfo: info, HoldID: id}
	request := driver.AcquireRequest{Resource: "r", LockID: "id", HoldID: id, Nested: id}
	held := &holdfast.HeldError{Resource: "r", Holders: []driver.Status{status}}
	record := model.Record{Resource: "r", Holds: []model.Hold{{LockID: "id", HoldID: id}}}
	names, migrations := adapt.NewNames(c, nil), adapt.NewMigrations(c, "m", nil)
	mutex, elector := adapt.NewMutex(ctx, c, "x", nil), adapt.NewElector(c, "e", nil)
	locker := adapt.NewLocker[adapt.Unlocker](c, nil)
	served, err := httplock.New("http://127.0.0.1:1", &httplock.Options{Token: password})
	if err != nil {
		t.Fatal(err)
	}
	handler, err := httpfence.New(http.NotFoundHandler(), &httpfence.Options{
		Resource: func(*http.Request) string { return "r" }, Newest: &httpfence.Memory{},
		Trust: func(*http.Request, httpfence.Token) error { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	node := &url.URL{Scheme: "https", User: url.UserPassword("u", password), Host: "h"}
	values := map[string]any{
		".Hold": h, ".Client": c, ".LiveHold": c.Live()[0], ".DeadlockError": &holdfast.DeadlockError{},
		".LockInfo": info, ".AttemptStartInfo": attempt, ".AttemptInfo": holdfast.AttemptInfo{AttemptStartInfo: attempt, Err: held},
		".WaitStartInfo": holdfast.WaitStartInfo{LockInfo: info}, ".WaitInfo": holdfast.WaitInfo{Err: held},
		".HoldStartInfo": holdfast.HoldStartInfo{Hold: h}, ".HoldInfo": holdfast.HoldInfo{HoldStartInfo: holdfast.HoldStartInfo{Hold: h}},
		".RenewInfo": holdfast.RenewInfo{Hold: h}, ".ReleaseInfo": holdfast.ReleaseInfo{Hold: h}, ".FailInfo": holdfast.FailInfo{LockInfo: info, Err: held},
		"driver.HoldRef": ref, "driver.Status": status, "driver.AcquireRequest": request, "driver.HeldError": held,
		"driver.RenewRequest": driver.RenewRequest{HoldRef: ref}, "driver.ReleaseRequest": driver.ReleaseRequest{HoldRef: ref},
		"driver/model.Hold": record.Holds[0], "driver/model.Record": record, "driver/model.Draft": model.Edit(record, 0),
		"driver/base.Store": mem.Store, "driver/base.Update": &base.Update{}, "driver/base.Change": base.Change{Record: record}, "driver/base.Entry": base.Entry{Record: record},
		"adapt.Mutex": mutex, "adapt.Names": names, "adapt.Elector": elector, "adapt.Migrations": migrations, "adapt.Locker": locker,
		"observe.Observer": observe.New(nil, func(context.Context, observe.Sample) {}),
		"httplock.Options": httplock.Options{Token: password}, "httplock.Store": served, "memlock.Store": mem,
		"eslock.Store":           eslock.New(performer{node}, nil),
		"fence/httpfence.Memory": &httpfence.Memory{}, "fence/httpfence.Handler": handler,
	}
	for _, dir := range []string{".", "driver", "driver/model", "driver/base", "adapt", "observe", "httplock", "memlock", "eslock", "fence/httpfence"} {
		for _, name := range exportedTypes(t, dir) {
			if _, ok := values[name]; !ok && !slices.Contains(unprinted, name) {
				t.Errorf("%s: say in this test how to make one, or that it has nothing to hide", name)
			}
		}
	}

	// Renewals change the hold, as the keep-alive does, and callers take and release locks.
	stop := make(chan struct{})
	var busy sync.WaitGroup
	defer busy.Wait()
	defer close(stop)
	for _, use := range []func() error{
		func() error { return h.Renew(ctx, 0) },
		func() error { return errors.Join(names.Lock(ctx, "n"), names.Unlock(ctx, "n")) },
		func() error { return errors.Join(migrations.Lock(ctx, nil), migrations.Unlock(ctx, nil)) },
		func() error { mutex.Lock(); mutex.Unlock(); return elector.IsLeader(ctx) },
	} {
		busy.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(time.Millisecond):
				}
				if err := use(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	secrets := []string{password, id.String(), hex.EncodeToString(id[:4]), strings.Trim(fmt.Sprint(id[:]), "[]"),
		strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf("%#v", id[:]), "[]byte{"), "}")}
	for name, value := range values {
		for _, value := range []any{value, []any{value}, struct{ In any }{value}} {
			var all bytes.Buffer
			for _, form := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
				fmt.Fprintf(&all, form+"\n", value)
			}
			slog.New(slog.NewTextHandler(&all, nil)).Info("", "value", value)
			for _, secret := range secrets {
				if strings.Contains(strings.ToLower(all.String()), strings.ToLower(secret)) {
					t.Errorf("%s: it prints %s:\n%s", name, secret, all.String())
					break
				}
			}
		}
		var log bytes.Buffer
		slog.New(slog.NewJSONHandler(&log, nil)).Info("", "value", value)
		for _, secret := range secrets {
			if strings.Contains(log.String(), secret) {
				t.Errorf("%s: its log has %s: %s", name, secret, log.String())
			}
		}
	}
	if got, want := fmt.Sprintf("%v", h), fmt.Sprintf(`exclusive hold of "r", token %d`, h.Token()); got != want {
		t.Errorf("a hold is printed as %s, want %s", got, want)
	}
	var none *holdfast.Hold
	slog.New(slog.NewTextHandler(io.Discard, nil)).Info("", "none", none)
	if got := fmt.Sprint(none); got != "<nil>" {
		t.Errorf("no hold is printed as %s", got)
	}
}

// performer is a client of Elasticsearch that has a URL.
type performer struct{ node *url.URL }

func (performer) Perform(*http.Request) (*http.Response, error) { return nil, errors.New("no answer") }

// exportedTypes returns the names of the types of a package that are exported and can have
// something to hide: all but interfaces, functions and basic types.
func exportedTypes(t *testing.T, dir string) (names []string) {
	t.Helper()
	files, err := parser.ParseDir(token.NewFileSet(), dir, func(f fs.FileInfo) bool { return !strings.HasSuffix(f.Name(), "_test.go") }, 0)
	if err != nil {
		t.Fatal(err)
	}
	prefix := strings.TrimPrefix(dir, ".") + "."
	for _, p := range files {
		ast.Inspect(p, func(n ast.Node) bool {
			s, ok := n.(*ast.TypeSpec)
			if !ok || !s.Name.IsExported() || s.Assign.IsValid() {
				_, inFunc := n.(*ast.FuncDecl)
				return !inFunc
			}
			switch s.Type.(type) {
			case *ast.StructType, *ast.ArrayType, *ast.MapType, *ast.StarExpr, *ast.SelectorExpr:
				names = append(names, prefix+s.Name.Name)
			}
			return false
		})
	}
	return names
}
