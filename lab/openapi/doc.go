// Package openapi holds a server, a process of the command, against its own OpenAPI document,
// as schemathesis does. The tests of module server hold each of their answers against it, too;
// here a stranger makes the requests, of the document alone: those that it allows, which the
// server must take, and those that it just does not allow, which the server must refuse.
package openapi
