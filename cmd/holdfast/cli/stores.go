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
	return &cobra.Command{
		Use:   "stores",
		Short: "List the kinds of store, what they promise and how their URLs are written",
		Long: `Lists the kinds of store, what they promise and how their URLs are written.
--store and HOLDFAST_STORE take such a URL, or

  local      a SQLite file of this user on this host
  env:NAME   the URL is in the variable NAME
  file:PATH  the URL is the one line of the file

Other users of the machine can see a password on the command line, but not one
in a variable or a file of yours.`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error { return exit.Printed(output.Table(os.Stdout, storesTable())) },
	}
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
