// Package explore tries everything that can happen to the protocol of a Client and
// its store within small bounds: two Clients, one resource, a handful of messages
// each of which may be late, lost or doubled, and a clock that ticks in between.
// The store is package driver/model as it is; the Client is its rules, in a form
// that has no goroutines. What goes wrong is told by the shortest history.
package explore

import (
	"fmt"
	"strings"
)

// search goes through all states that can be reached, the nearest first. It
// returns how many there were, and the history that leads to the first one with
// something wrong, or nil.
func search(w world) (states int, history []string) {
	type node struct {
		state  state
		parent int
		step   step
	}
	nodes := []node{{state: w.begin(), parent: -1}}
	seen := map[state]struct{}{nodes[0].state: {}}
	for i := 0; i < len(nodes); i++ {
		var wrong string
		from := nodes[i].state
		w.steps(from, func(s step, to state, err string) {
			if wrong != "" {
				return
			}
			if err == "" {
				err = w.wrong(&to)
			}
			if _, known := seen[to]; known && err == "" {
				return
			}
			seen[to] = struct{}{}
			nodes = append(nodes, node{to, i, s})
			wrong = err
		})
		if wrong == "" {
			continue
		}
		history = []string{wrong}
		for n := len(nodes) - 1; nodes[n].parent >= 0; n = nodes[n].parent {
			history = append(history, fmt.Sprintf("%3d ms  %v", nodes[nodes[n].parent].state.now, nodes[n].step))
		}
		for a, b := 0, len(history)-1; a < b; a, b = a+1, b-1 {
			history[a], history[b] = history[b], history[a]
		}
		return len(nodes), history
	}
	return len(nodes), nil
}

// step is what happens between two states.
type step struct {
	what string
	who  int8
	m    message
}

func (s step) String() string {
	var b strings.Builder
	if s.who >= 0 {
		fmt.Fprintf(&b, "Client %c ", 'A'+s.who)
	}
	b.WriteString(s.what)
	if s.m.kind != none {
		fmt.Fprintf(&b, " %v", s.m)
	}
	return b.String()
}
