package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/lab/internal/modules"
)

func TestRules(t *testing.T) {
	root := modules.Module{Dir: ".", Path: "m", Go: rootGo}
	store := modules.Module{Dir: "store", Path: "m/store", Require: []string{"m", "example.com/db"},
		Replace: map[string]string{"m": "../"}}
	cmd := modules.Module{Dir: "cmd/m", Path: "m/cmd/m", Require: []string{"m/store"},
		Replace: map[string]string{"m": "../../", "m/store": "../../store"}}
	bench := modules.Module{Dir: modules.Bench, Path: "m/lab/bench"}
	work := []string{".", "store", "cmd/m"}

	with := func(m modules.Module, change func(*modules.Module)) modules.Module {
		change(&m)
		return m
	}
	for _, tc := range []struct {
		name string
		all  []modules.Module
		work []string
		want string // the only problem; "" for none
	}{
		{"in order", []modules.Module{root, store, cmd, bench}, work, ""},
		{"root asks for a newer Go", []modules.Module{
			with(root, func(m *modules.Module) { m.Go = "1.26.0" }), store, cmd, bench,
		}, work, "promises go 1.25.0"},
		{"a module outside go.work", []modules.Module{root, store, cmd, bench}, work[:2], "cmd/m/go.mod: is in go.work: false"},
		{"benchmarks in go.work", []modules.Module{root, store, cmd, bench}, append(slices.Clone(work), modules.Bench), "want false"},
		{"an indirect replace is missing", []modules.Module{root, store, with(cmd, func(m *modules.Module) {
			m.Replace = map[string]string{"m/store": "../../store"}
		}), bench}, work, "cmd/m/go.mod: needs `replace m => ../..`"},
		{"a replace goes elsewhere", []modules.Module{root, with(store, func(m *modules.Module) {
			m.Replace = map[string]string{"m": "../cmd/m"}
		}), cmd, bench}, work, "store/go.mod: replaces m by ../cmd/m"},
		{"another's module is replaced", []modules.Module{root, with(store, func(m *modules.Module) {
			m.Replace = map[string]string{"m": "../", "example.com/db": "example.com/fork"}
		}), cmd, bench}, work, "store/go.mod: replaces example.com/db"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := rules(tc.all, tc.work)
			switch {
			case tc.want == "" && len(got) > 0:
				t.Errorf("problems: %q, want none", got)
			case tc.want != "" && (len(got) != 1 || !strings.Contains(got[0], tc.want)):
				t.Errorf("problems: %q, want one with %q", got, tc.want)
			}
		})
	}
}
