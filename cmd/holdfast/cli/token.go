package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/server/access"
)

func newToken() *cobra.Command {
	return &cobra.Command{
		Use:   "token NAME",
		Short: "Make a token for a caller of a server, and its entry for the auth file",
		Long: `Prints a new token on stdout, and on stderr the entry that gives it to the
caller of that name in the auth file of holdfast serve. The entry has a hash of
the token, not the token, which is shown this once. It has no rules yet: write
into it what the caller may do.`,
		Example: `  # The token goes into a file that only you can read, the entry to the terminal.
  (umask 077; holdfast token billing > billing.token)

  # Its holder names the file in the URL, or has the token in a variable.
  holdfast run --store 'https://locks.example.com?token_file=billing.token' invoices -- ./run.sh
  HOLDFAST_SERVER_TOKEN=$(cat billing.token) holdfast status --store https://locks.example.com`,
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return exit.Usagef("name one caller: holdfast token NAME")
			}
			token, entry, err := access.NewToken(args[0])
			if err != nil {
				return exit.Usagef("%v", err)
			}
			if _, err := fmt.Fprintln(os.Stdout, token); err != nil {
				return exit.Printed(err)
			}
			_, err = fmt.Fprintln(os.Stderr, entry)
			return exit.Printed(err)
		},
	}
}
