// Command holdfast runs commands under a lock, so that one runs at a time, and shows
// the holders. It brings the locks of package holdfast to scripts, crontabs and every
// language. docs/cli.md describes its use.
//
// All of it is package cli, which programs with their own stores call, too.
package main

import "github.com/holdfast-go/holdfast/cmd/holdfast/cli"

func main() { cli.Main() }
