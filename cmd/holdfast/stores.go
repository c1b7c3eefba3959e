package main

import (
	"os"
	"slices"

	"github.com/spf13/cobra"

	_ "github.com/holdfast-go/holdfast/compat/mongodoc" // layouts in mongodb's URLs
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/eslock"
	_ "github.com/holdfast-go/holdfast/eslock/esurl" // its URLs
	"github.com/holdfast-go/holdfast/memlock"
	"github.com/holdfast-go/holdfast/mongolock"
	"github.com/holdfast-go/holdfast/pglock"
	"github.com/holdfast-go/holdfast/redislock"
	"github.com/holdfast-go/holdfast/sqlitelock"
)

// linked are the stores that this program contains. What is not to be read off
// a store's traits is how its URL is written.
var linked = []struct {
	schemes []string
	form    string
	traits  driver.Traits
}{
	{[]string{"sqlite"}, "sqlite:///PATH or sqlite:PATH; local is this user's", sqlitelock.Traits()},
	{[]string{"mongodb", "mongodb+srv"}, "mongodb://HOSTS/DATABASE?collection=NAME or mongodb+srv:", mongolock.Traits()},
	{[]string{"elasticsearch", "elasticsearch+https", "opensearch", "opensearch+https"},
		"elasticsearch://HOSTS/?index=NAME, opensearch://, or either with +https", eslock.Traits()},
	{[]string{"postgres", "postgresql"}, "postgres://HOSTS/DATABASE?schema=NAME", pglock.Traits()},
	{[]string{"redis", "rediss"}, "redis://HOSTS/DATABASE, or rediss: for TLS", redislock.Traits()},
	{[]string{"memory"}, "memory: in Go programs only, ends with the process", memlock.Traits()},
}

// reachOf is how far the stores of the scheme reach, "" for an unknown scheme.
func reachOf(scheme string) driver.Reach {
	for _, s := range linked {
		if slices.Contains(s.schemes, scheme) {
			return s.traits.Reach
		}
	}
	return ""
}

func newStores() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "stores",
		Short: "List the kinds of store, what they promise and how their URLs are written",
		Long: `Lists the kinds of store, what they promise and how their URLs are written.
--store and HOLDFAST_STORE take such a URL, or

  local      a SQLite file of this user's on this host
  env:NAME   the URL is in the variable NAME
  file:PATH  the URL is the one line of the file

Others on the machine can see a password on the command line, but not one in a
variable or a file of yours.`,
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			if asJSON {
				return printed(encodeJSON(os.Stdout, storesListed()))
			}
			return printed(writeTable(os.Stdout, storesTable()))
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON array")
	return cmd
}

// listed is a kind of store in JSON. Scripts read it: a field may be added, none
// changed.
type listed struct {
	traits
	Schemes []string `json:"schemes"`
	URL     string   `json:"url"`
}

func storesListed() []listed {
	var all []listed
	for _, s := range linked {
		all = append(all, listed{traitsOf(s.traits), s.schemes, s.form})
	}
	return all
}

func storesTable() [][]string {
	rows := [][]string{{"STORE", "REACH", "CLOCK", "NOTIFIES", "DURABLE", "SHARED", "FENCING", "FAIL-OVER", "URL"}}
	for _, s := range linked {
		t := s.traits
		clock := "each client's"
		if t.ServerClock {
			clock = "the store's"
		}
		rows = append(rows, []string{
			t.Name, string(t.Reach), clock, yes(t.Notifies), yes(t.Durable), yes(t.Shared), string(t.Fencing), failover(t.Failover), s.form,
		})
	}
	return rows
}

// failover is what is left of holds, or that there is nothing to fail over to.
func failover(f driver.Failover) string {
	if f == driver.FailoverNone {
		return "-"
	}
	return string(f)
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
