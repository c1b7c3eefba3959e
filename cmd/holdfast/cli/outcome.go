package cli

import (
	"os"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
)

// printHolds prints on stdout the holds that a command released or renewed. If there are
// none, the text is that of the error.
func printHolds(asJSON bool, holds []holdfast.Status, nothing string) error {
	var err error
	switch {
	case asJSON:
		err = output.HoldsJSON(os.Stdout, holds, nil)
	case len(holds) > 0:
		err = output.Table(os.Stdout, output.HoldRows(holds))
	}
	if err == nil && len(holds) == 0 {
		return exit.Errorf(exit.Failed, "%s", nothing)
	}
	return exit.Printed(err)
}
