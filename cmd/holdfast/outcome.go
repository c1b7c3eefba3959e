package main

import (
	"os"

	"github.com/holdfast-go/holdfast"
)

// outcome shows what a command did to holds.
type outcome struct{ json bool }

// print shows the holds on stdout, and to people what it means that there is none.
func (o outcome) print(holds []holdfast.Status, nothing string) error {
	switch {
	case o.json:
		return printed(writeJSON(os.Stdout, holds))
	case len(holds) == 0:
		say("%s", nothing)
		return nil
	}
	return printed(writeTable(os.Stdout, table(holds)))
}
