package cli

import (
	"os"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
)

// outcome shows what a command did to holds.
type outcome struct{ json bool }

// print shows the holds on stdout, and to people what it means that there is none.
func (o outcome) print(holds []holdfast.Status, nothing string) error {
	switch {
	case o.json:
		return exit.Printed(output.HoldsJSON(os.Stdout, holds))
	case len(holds) == 0:
		output.Say("%s", nothing)
		return nil
	}
	return exit.Printed(output.Table(os.Stdout, output.HoldRows(holds)))
}
