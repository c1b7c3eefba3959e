//go:build linux

package printed

import (
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/lab/internal/modules"
	"github.com/holdfast-go/holdfast/lab/internal/need"
)

// In an exported type of a released package, package fmt, slog and JSON must not find a hold
// ID, a key, a token or a URL by themselves: such types need methods. TestPrinted and
// TestStoresPrinted check what these methods print, and the values in interfaces.
func TestTypes(t *testing.T) {
	root, err := modules.Root(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all, err := modules.Find(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, m := range all {
		if !m.Released() {
			continue
		}
		list, err := modules.Output(t.Context(), filepath.Join(root, m.Dir), "go", "list", "-export", "-deps",
			"-f", "{{.ImportPath}} {{.Export}} {{.Name}} {{with .Module}}{{.Path}}{{end}}", "./...")
		if err != nil {
			need.Lacks(t, "modules", err.Error())
		}
		exports, paths := map[string]string{}, []string(nil)
		for line := range strings.Lines(list) {
			f := strings.Split(strings.TrimSpace(line), " ")
			exports[f[0]] = f[1]
			if f[len(f)-1] == m.Path && f[2] != "main" && !notShown.MatchString(f[0]) {
				paths = append(paths, f[0])
			}
		}
		from := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
		for _, path := range paths {
			p, err := from.Import(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range p.Scope().Names() {
				n, ok := p.Scope().Lookup(name).(*types.TypeName)
				if !ok || !n.Exported() || n.IsAlias() || isSecret(n) {
					continue
				}
				count++
				at := types.NewPointer(n.Type())
				if found := printed(n.Type(), true); found != "" && !has(at, "Format") {
					t.Errorf("%v: without a method Format, fmt prints%s", n.Type(), found)
				}
				if found := marshaled(n.Type(), nil); found != "" && !has(at, "LogValue") && !has(at, "Error") {
					t.Errorf("%v: without a method LogValue, slog prints%s", n.Type(), found)
				}
			}
		}
	}
	if count < 150 {
		t.Errorf("there are %d types", count)
	}
}

var (
	// notShown are packages that programs do not import, or that contain holds of tests.
	notShown    = regexp.MustCompile("/(internal|driver/drivertest)(/|$)")
	secretTypes = regexp.MustCompile(`/driver\.HoldID$|net/url\.URL$|net/http\.Header$`)
	secretNames = regexp.MustCompile("(?i)token|password|secret|authorization")
	// harmless are types without secrets: IDs of places, which only their waiters know, and
	// hashes.
	harmless = regexp.MustCompile(`/driver\.PlaceID$|/history\.Hash$`)
)

// isSecret reports whether the field, or the type, contains a secret: it is one of the
// secretTypes, another array of bytes, or a string with one of the secretNames.
func isSecret(o types.Object) bool {
	name := o.Type().String()
	switch u := o.Type().Underlying().(type) {
	case *types.Array:
		return types.Identical(u.Elem(), types.Typ[types.Byte]) && !harmless.MatchString(name)
	case *types.Basic:
		return u.Info()&types.IsString != 0 && secretNames.MatchString(o.Name())
	}
	return secretTypes.MatchString(name)
}

func has(t types.Type, method string) bool {
	m, _, _ := types.LookupFieldOrMethod(t, false, nil, method)
	_, ok := m.(*types.Func)
	return ok
}

// printed returns the path to a secret that package fmt finds in the type, or "". Like fmt, it
// does not follow pointers in a value, and uses methods only of values that are exported.
func printed(t types.Type, reached bool) string {
	if reached && has(t, "Format") {
		return ""
	}
	switch u := t.Underlying().(type) {
	case *types.Struct:
		for f := range u.Fields() {
			if isSecret(f) {
				return " " + f.Name()
			} else if found := printed(f.Type(), f.Exported()); found != "" {
				return " " + f.Name() + found
			}
		}
	case *types.Pointer:
	case interface{ Elem() types.Type }: // an array, a slice, a map
		return printed(u.Elem(), reached)
	}
	return ""
}

// marshaled returns the path to a secret that package json finds in the type, or "".
func marshaled(t types.Type, seen []types.Type) string {
	if slices.Contains(seen, t) || has(t, "MarshalJSON") || strings.HasSuffix(t.String(), "net/http.Request") { // which has functions
		return ""
	}
	switch u := t.Underlying().(type) {
	case *types.Struct:
		for i := range u.NumFields() {
			f := u.Field(i)
			if !f.Exported() && !f.Embedded() || reflect.StructTag(u.Tag(i)).Get("json") == "-" {
				continue
			} else if isSecret(f) {
				return " " + f.Name()
			} else if found := marshaled(f.Type(), append(seen, t)); found != "" {
				return " " + f.Name() + found
			}
		}
	case interface{ Elem() types.Type }:
		return marshaled(u.Elem(), seen)
	}
	return ""
}
