package cli

import (
	"os"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
)

// outcome prints the holds that a command released or renewed.
type outcome struct{ json bool }

// print prints the holds on stdout. If there are none, people get the text on stderr.
func (o outcome) print(holds []holdfast.Status, nothing string) error {
	switch {
	case o.json:
		return exit.Printed(output.HoldsJSON(os.Stdout, holds, nil))
	case len(holds) == 0:
		output.Say("%s", nothing)
		return nil
	}
	return exit.Printed(output.Table(os.Stdout, output.HoldRows(holds)))
}
