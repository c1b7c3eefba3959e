// Package printed checks the exported types of all released modules: package fmt, slog and JSON
// must not print a secret, such as a hold ID, a key or a URL with a password. It has tests
// only.
package printed
