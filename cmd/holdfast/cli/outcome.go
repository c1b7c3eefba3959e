package cli

import (
	"os"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
)

// printHolds prints on stdout the holds that a command released or renewed. If there are
// none, people get the text on stderr.
func printHolds(asJSON bool, holds []holdfast.Status, nothing string) error {
	switch {
	case asJSON:
		return exit.Printed(output.HoldsJSON(os.Stdout, holds, nil))
	case len(holds) == 0:
		output.Say("%s", nothing)
		return nil
	}
	return exit.Printed(output.Table(os.Stdout, output.HoldRows(holds)))
}
