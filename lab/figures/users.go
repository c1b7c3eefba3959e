package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/lab/internal/results"
)

// kept finds values in result files, by name. It collects the errors, so that no missing value
// goes unnoticed.
type kept struct {
	speed, serve, run results.Report
	errs              []error
}

// page returns docs/figures.md with its tables filled in.
func page(docs, dev string) (made, error) {
	var k kept
	for file, into := range map[string]*results.Report{
		"performance.json": &k.speed, "performance-serve.json": &k.serve, "performance-run.json": &k.run,
	} {
		if err := results.Load(filepath.Join(dev, file), into); err != nil {
			return made{}, err
		}
	}
	old, err := os.ReadFile(filepath.Join(docs, "figures.md"))
	if err != nil {
		return made{}, err
	}
	text := string(old)
	for _, b := range []struct{ name, text string }{
		{"cost", k.speed.Machine() + "\n\n" + results.MarkdownTable(k.cost())},
		{"libraries", k.libraries()},
		{"hand-overs", k.handOvers()},
		{"memory", k.memory()},
		{"server", results.MarkdownTable(k.server())},
		{"commands", "Measured on " + k.run.Date + ".\n\n" + results.MarkdownTable(k.commands())},
	} {
		if text, err = results.Fill(text, "make docs ("+b.name+")", "\n"+b.text+"\n"); err != nil {
			return made{}, fmt.Errorf("figures.md: %w", err)
		}
	}
	return made{"figures.md", []byte(text)}, errors.Join(k.errs...)
}

// cost returns the table of Lock and Unlock on each store.
func (k *kept) cost() [][]string {
	rows := [][]string{{"pairs per second", "1 worker", "many", "of the statements alone"}}
	for _, s := range []struct{ store, one, many, workers, alone, note, than string }{
		{store: "SQLite", one: "1 process", many: "8", workers: "processes", alone: "two bare transactions"},
		{store: "Redis", one: "1 worker", many: "256", workers: "workers", alone: "the same two EVALSHA sent bare"},
		{
			store: "PostgreSQL", one: "1 worker", many: "16", workers: "workers", alone: "the same two statements sent bare",
			note: "of two upserts", than: "two bare upserts of a row",
		},
		{store: "OpenSearch", one: "1 worker", many: "16", workers: "workers", alone: "the same two updates sent bare"},
	} {
		ratio := func(than string) string {
			return share(k.value(k.speed, fmt.Sprintf("%s, Lock and Unlock per %s, %s", s.store, than, s.one)))
		}
		alone := ratio(s.alone)
		if s.than != "" {
			alone += "; " + ratio(s.than) + " " + s.note
		}
		rows = append(rows, []string{
			s.store,
			thousands(k.point("pairs", s.store+", "+s.one, "Holdfast")),
			fmt.Sprintf("%s (%s)", thousands(k.point("pairs", s.store+", "+s.many+" "+s.workers, "Holdfast")), s.many),
			alone,
		})
	}
	return rows
}

// libraries returns the rates of other packages for Redis, each measured in turns with Holdfast.
func (k *kept) libraries() string {
	text := ""
	for _, peer := range []string{"bsm/redislock", "redsync"} {
		var ours, theirs []string
		for _, workers := range []string{"1 worker", "32 workers", "256 workers"} {
			our, their := k.inTurns("Redis, Lock and Unlock per the better of bsm/redislock and redsync, "+workers, peer)
			ours, theirs = append(ours, thousands(our)), append(theirs, thousands(their))
		}
		text += fmt.Sprintf("- %s: %s; Holdfast beside it: %s\n", peer, strings.Join(theirs, ", "), strings.Join(ours, ", "))
	}
	return text
}

// handOvers returns the times from before Unlock to the next grant.
func (k *kept) handOvers() string {
	text := ""
	for _, of := range []struct{ row, shown string }{
		{"Redis, one waiter", "Redis, one waiter"},
		{"PostgreSQL, 64 waiters in 8 Clients", "PostgreSQL, 64 waiters in 8 Clients"},
		{"SQLite, another process", "SQLite, to another process"},
		{"SQLite, after silence", "SQLite, after 1 to 4 s of silence"},
	} {
		text += fmt.Sprintf("- %s: %s and %s ms\n", of.shown, digits(k.point("hand-overs", of.row, "p50")), digits(k.point("hand-overs", of.row, "p99")))
	}
	return text
}

// memory returns the cost of holds and waiters in a process.
func (k *kept) memory() string {
	measured := func(what string) string { return k.result(k.speed, what).Measured() }
	one, each := "SQLite, 1,000 idle waiters of one resource, ", "SQLite, 1,000 idle waiters of a resource each, "
	return fmt.Sprintf("- A hold takes %s.\n", measured("10,000 holds, memory of each")) +
		fmt.Sprintf("- A waiter takes %s, or %s if it is the first of its resource.\n", measured(one+"memory of each"), measured(each+"memory of each")) +
		fmt.Sprintf("- 1,000 waiters in SQLite take %s of a core, or %s if each waits for a resource of its own.\n",
			measured(one+"share of a core"), measured(each+"share of a core"))
}

// server returns the table of the cost of holdfast serve.
func (k *kept) server() [][]string {
	stores := []string{"PostgreSQL", "Redis"}
	rows := [][]string{append([]string{""}, stores...)}
	for _, r := range []struct {
		shown string
		cell  func(store string) string
	}{
		{"pairs, of the store's own, by 1; 64 workers", func(store string) string {
			const of = ", Lock and Unlock over HTTPS per the store's own, "
			return share(k.value(k.serve, store+of+"1 worker")) + "; " + share(k.value(k.serve, store+of+"64 workers"))
		}},
		{"pairs, of those of etcd with TLS", func(store string) string {
			if store != "PostgreSQL" {
				return ""
			}
			const of = "holdfast serve on PostgreSQL, Lock and Unlock per those of etcd with TLS, "
			return share(k.value(k.serve, of+"1 worker")) + "; " + share(k.value(k.serve, of+"64 workers"))
		}},
		{"hand-over longer by (p50)", func(store string) string {
			return digits(k.value(k.serve, store+", hand-over over HTTPS to a Client, p50 longer than the store's own")) + " ms"
		}},
		{"acquires and releases per CPU second", func(store string) string {
			return thousands(k.value(k.serve, store+" behind holdfast serve, HTTPS, acquires and releases per second of its CPU time"))
		}},
	} {
		row := []string{r.shown}
		for _, store := range stores {
			row = append(row, r.cell(store))
		}
		rows = append(rows, row)
	}
	return rows
}

// commands returns the table of programs that run a command under a lock.
func (k *kept) commands() [][]string {
	rows := [][]string{{"a run of `true`", "holdfast run", "flock", "etcdctl lock"}}
	for _, r := range []struct{ what, shown string }{
		{"wall time", "wall time"}, {"CPU time", "CPU time"}, {"memory", "memory"},
	} {
		row := []string{r.shown}
		for _, program := range []string{"holdfast, SQLite", "flock", "etcdctl"} {
			row = append(row, k.result(k.run, program+", "+r.what).Measured())
		}
		rows = append(rows, row)
	}
	return rows
}

// result returns the result of a file with the name.
func (k *kept) result(r results.Report, what string) results.Result {
	i := slices.IndexFunc(r.Results, func(one results.Result) bool { return one.What == what })
	if i < 0 {
		k.errs = append(k.errs, fmt.Errorf("figures.md: no result file has %q", what))
		return results.Result{}
	}
	return r.Results[i]
}

func (k *kept) value(r results.Report, what string) float64 { return k.result(r, what).Value }

// point returns the value of a point in a drawing.
func (k *kept) point(drawing, row, series string) float64 {
	for _, one := range k.speed.Results {
		for _, p := range one.Points {
			if p.Drawing == drawing && p.Row == row && p.Series == series {
				return p.Value
			}
		}
	}
	k.errs = append(k.errs, fmt.Errorf("figures.md: no result file has a point of %s, %s, %s", drawing, row, series))
	return 0
}

// inTurns returns the values of Holdfast and of the peer that it took turns with.
func (k *kept) inTurns(what, peer string) (ours, theirs float64) {
	for _, p := range k.result(k.speed, what).Points {
		if p.Series == peer {
			return ours, p.Value
		}
		if p.Series == "Holdfast" {
			ours = p.Value
		}
	}
	k.errs = append(k.errs, fmt.Errorf("figures.md: %q has no point of %s", what, peer))
	return 0, 0
}

// digits formats a number to three digits.
func digits(v float64) string { return strconv.FormatFloat(v, 'g', 3, 64) }

// thousands formats a large number to three digits, with commas.
func thousands(v float64) string {
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(v, 'e', 2, 64), 64)
	if err != nil {
		return err.Error()
	}
	return number(rounded)
}

// share formats a ratio in per cent, with one decimal below 10 %.
func share(v float64) string {
	text := strconv.FormatFloat(100*v, 'f', 0, 64)
	if v < 0.1 {
		text = strings.TrimSuffix(strconv.FormatFloat(100*v, 'f', 1, 64), ".0")
	}
	return text + " %"
}
