package explore

import (
	"fmt"
	"strings"
)

// search visits all reachable states, those with the shortest history first. It returns their
// number, and the history of the first state that violates a rule, or nil.
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
				err = w.violation(&to)
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

// step is a step from one state to the next.
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
