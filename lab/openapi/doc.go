// Package openapi tests a server of holdfast serve against its own OpenAPI document with
// schemathesis. Schemathesis makes the requests from the document alone: requests that the
// document just allows, which the server must accept, and requests that it just forbids, which
// the server must refuse. The package has tests only.
package openapi
