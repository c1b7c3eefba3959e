package cli

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/top"
)

func newTop() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "top [flags]",
		Short: "Show live who holds what and who waits, on the whole terminal",
		Long: `Shows the holds that block other clients, with the time that each has left and
those that wait for it, and looks at the store again and again. It changes
nothing there.

  up, down, page up, page down, home, end   choose a row, and scroll
  /    type a text to show only rows with it in a name or comment; enter ends
       the typing, escape shows all again
  s    sort by resource, time left, or since when they are held
  r    look at the store now
  q    quit`,
		Args: noArgs,
	}
	store := readFlag(cmd)
	all := cmd.Flags().Bool("all", false, "also the holds that Holdfast itself has, such as that of a server")
	interval := intervalFlag(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := validInterval(*interval); err != nil {
			return err
		}
		if !output.IsTerminal(os.Stdin) || !output.IsTerminal(os.Stdout) {
			return exit.Usagef("top needs a terminal to draw on and to read keys from; holdfast status needs none")
		}
		where, err := store()
		if err != nil {
			return err
		}
		return top.Run(cmd.Context(), where, *all, *interval)
	}
	return cmd
}
