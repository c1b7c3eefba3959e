package cli

import (
	"cmp"
	"os"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/location"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
)

func newStores() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "stores [flags]",
		Short: "List the kinds of store, what they promise and how their URLs are written",
		Long: `Lists the kinds of store, what they promise and how their URLs are written.
--store and HOLDFAST_STORE take such a URL, or

  local      a SQLite file of this user on this host
  env:NAME   the URL is in the variable NAME
  file:PATH  the URL is the one line of the file

Other users of the machine can see a password on the command line, but not one
in a variable or a file of yours.`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			if asJSON {
				return exit.Printed(output.JSON(os.Stdout, storesListed()))
			}
			return exit.Printed(output.Table(os.Stdout, storesTable()))
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array")
	return cmd
}

// listed is a kind of store in JSON. Scripts read it: a field may be added, none
// changed.
type listed struct {
	output.Traits
	Schemes []string `json:"schemes"`
	URL     string   `json:"url"`
	// Varies: it promises what the store behind it does, and its traits are the weakest.
	Varies bool `json:"varies"`
}

func storesListed() []listed {
	var all []listed
	for _, s := range location.Kinds {
		all = append(all, listed{output.TraitsOf(s.Traits), s.Schemes, s.Form, s.Varies()})
	}
	return all
}

func storesTable() [][]string {
	rows := [][]string{{"STORE", "REACH", "CLOCK", "NOTIFIES", "QUEUE", "DURABLE", "SHARED", "FENCING", "FAIL-OVER", "URL"}}
	for _, s := range location.Kinds {
		t := s.Traits
		if s.Varies() {
			rows = append(rows, []string{t.Name, "varies", "-", "-", "-", "-", "-", "-", "-", s.Form})
			continue
		}
		clock := "each client's"
		if t.ServerClock {
			clock = "the store's"
		}
		rows = append(rows, []string{
			t.Name, string(t.Reach), clock, yes(t.Notifies), yes(t.Queue), yes(t.Durable), yes(t.Shared), string(t.Fencing), cmp.Or(string(t.Failover), "-"), s.Form,
		})
	}
	return rows
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
