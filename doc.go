// Package holdfast takes distributed locks on a database that is already there.
package holdfast
