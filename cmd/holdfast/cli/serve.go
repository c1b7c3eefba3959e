package cli

import (
	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/serve"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/span"
	"github.com/holdfast-go/holdfast/server"
)

func newServe() *cobra.Command {
	cmd := &cobra.Command{
		Use:        "serve [flags]",
		Short:      "Serve the locks of a store over HTTP, to programs in every language",
		SuggestFor: []string{"server", "listen", "daemon"},
		Long: `Serves the locks of the store over HTTP until a signal ends it. Programs that
come through the server and those that reach the store directly exclude one
another. The server keeps no lock itself: any number of them may stand in front
of one store.

As it is, it listens on loopback, where every user of this machine may lock and
look. Only through --unix are others' locks released by force. For other
machines it needs TLS, and --auth with a file that says who may do what;
holdfast token makes the tokens. docs/server.md describes all of it.

TERM and INT end it in an order in which balancers and callers find another
server; a second one ends it at once. HUP opens the file of --audit again. The
auth file and the TLS files are read again when they change. The exit status is

  0      a signal has ended it, and all that was asked for was answered
  1      it cannot listen, or a file cannot be read
  64     the command line is wrong
  69     the store cannot be used
  128+n  a second signal n ended it at once`,
		Example: `  # For the programs of this machine.
  holdfast serve --store postgres://db.example.com/app
  curl -d '{"resource":"nightly","ttlMs":30000}' -H 'Content-Type: application/json' \
    http://127.0.0.1:4653/v1/acquire

  # For other machines.
  holdfast serve --listen :4653 --host locks.example.com --auth /etc/holdfast/auth.json \
    --tls-cert /etc/holdfast/tls.pem --tls-key /etc/holdfast/tls.key`,
		Args: noArgs,
	}
	var c serve.Config
	flags := cmd.Flags()
	flags.SortFlags = false
	store := storeFlag(cmd)
	flags.StringVar(&c.Listen, "listen", "127.0.0.1:"+serve.Port, "the `address` and port to listen on; port 0 is any, and none is no TCP")
	flags.StringVar(&c.Unix, "unix", "", "the `path` of a Unix socket to listen on as well, through which root and the\n"+
		"user of the server may do everything; its folder is that user's alone")
	flags.StringVar(&c.Auth, "auth", "", "the `file` that says who may do what")
	flags.StringVar(&c.Certificate, "tls-cert", "", "the `file` with the server's certificate, in PEM")
	flags.StringVar(&c.Key, "tls-key", "", "the `file` with its key, in PEM")
	flags.StringVar(&c.Clients, "client-ca", "", "the `file` with the authorities of callers' certificates, in PEM")
	flags.StringSliceVar(&c.Hosts, "host", nil, "a `name` of the server that callers use, with or without a port; may be\n"+
		"repeated, or a list with commas. The address that it listens on needs none")
	flags.StringSliceVar(&c.Proxies, "trusted-proxy", nil, "a `network`, such as 10.1.0.0/16, whose proxies are believed which address\n"+
		"a request came from, for the audit and the limits of each address; may be repeated,\n"+
		"or a list")
	flags.BoolVar(&c.Plaintext, "plaintext", false, "serve other machines without TLS: something before it ends that")
	flags.BoolVar(&c.NoAuth, "no-auth", false, "let everybody who reaches it lock and look")
	cmd.MarkFlagsMutuallyExclusive("plaintext", "tls-cert")
	cmd.MarkFlagsMutuallyExclusive("no-auth", "auth")
	flags.StringVar(&c.Audit, "audit", "", "the `file` to note in who did what, or was denied it")
	flags.StringVar(&c.History, "history", "", "the `file` to keep in what became of holds, for holdfast history: SQLite, for\n"+
		"seven days and up to 128 MiB, of this server alone")
	span.Var(flags, &c.MaxWait, "max-wait", server.DefaultMaxWait, "the longest `duration` that a request may wait for a lock; shorter than what\n"+
		"proxies wait for an answer")
	span.Var(flags, &c.DrainDelay, "drain-delay", serve.DrainDelay, "the `duration` from TERM, when /readyz begins to fail, to the end of waits")
	asJSON := flags.Bool("json-log", false, "print each line on stderr as a JSON object")
	for _, name := range []string{"unix", "auth", "tls-cert", "tls-key", "client-ca", "audit", "history"} {
		_ = cmd.MarkFlagFilename(name) // fails for a flag that is not there
	}

	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *asJSON {
			output.LogJSON()
		}
		c.Unasked = !flags.Changed("listen")
		if err := c.Validate(); err != nil {
			return err
		}
		var err error
		if c.Store, err = store(); err != nil {
			return err
		}
		if c.Store.IsServer() {
			return exit.Usagef("%s is a server itself; name the store behind it, or let callers use that server", c.Store.Name())
		}
		c.Version = version(buildInfo())
		return serve.Run(cmd.Context(), c)
	}
	return cmd
}
