package cli

import (
	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/env"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/location"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/secret"
)

// readFlag is storeFlag for commands that lock nothing: it says which store that is if none was
// named, and if its file is not there, which these commands do not create.
func readFlag(cmd *cobra.Command) func() (location.Location, error) {
	store := storeFlag(cmd)
	return func() (location.Location, error) {
		l, err := store()
		if err != nil {
			return l, err
		}
		missing := ""
		if l.Empty() {
			missing = ", which does not exist"
		}
		if l.Unasked || missing != "" {
			output.Say("the store is %s%s", l.Title(), missing)
		}
		return l, nil
	}
}

// storeFlag declares the flag --store. The returned function finds the store once
// the flags are parsed.
func storeFlag(cmd *cobra.Command) func() (location.Location, error) {
	cmd.Flags().String("store", "", "where the locks are: a `URL` (holdfast stores lists the forms), the path of a SQLite file with a "+
		"/ in it, local for this user's file on this host, or env:NAME or file:PATH if the URL is in a variable or a file (default local)")
	return func() (location.Location, error) {
		flag := cmd.Flags().Lookup("store")
		named := flag.Value.String()
		switch {
		case !flag.Changed:
			l, err := location.Locate(location.Local)
			l.Unasked = true
			return l, err
		case named == "" && env.ByVariable(flag):
			return location.Location{}, exit.Usagef("%s is empty; unset it, or set it to a URL, a path or local", env.Given(flag))
		case named == "":
			return location.Location{}, exit.Usagef("--store is empty; give a URL, a path, or local")
		}
		storeURL, err := location.Dereference(named)
		if err != nil {
			return location.Location{}, err
		}
		l, err := location.Locate(storeURL)
		if err == nil && storeURL == named && !env.ByVariable(flag) && secret.HasPassword(named) {
			output.Say("others on this machine can see a password on the command line; name the store with HOLDFAST_STORE, " +
				"--store env:NAME or --store file:PATH")
		}
		return l, err
	}
}
