// Package esdoc knows which document of an index the lock of a name is in: as
// package eslock has it, and as programs with es-distributed-lock do.
package esdoc

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"strings"
	"unicode/utf8"
)

// MaxID is the longest ID of a document, in bytes.
const MaxID = 512

// hashed is what the IDs of documents begin with whose resource is none.
const hashed = "sha256-"

// ID is that of the document of a resource. No two share one, for what has the
// form of a hash is hashed, too.
func ID(resource string) string {
	if len(resource) <= MaxID && !isHash(resource) {
		return resource
	}
	sum := sha256.Sum256([]byte(resource))
	return hashed + hex.EncodeToString(sum[:])
}

func isHash(name string) bool {
	return strings.HasPrefix(name, hashed) && len(name) == len(hashed)+hex.EncodedLen(sha256.Size)
}

// Old is the resource whose document programs with es-distributed-lock lock by an
// ID: they write it into the path of a URL as it is. It is the ID itself where
// they can lock nothing by it. An error says why it cannot be told, or not be had.
func Old(id string) (resource string, err error) {
	resource, err = inPath(id)
	switch {
	case err != nil:
		return "", err
	case isHash(resource):
		return "", fmt.Errorf("%q has the form of a hash, which Holdfast keeps for itself", id)
	case resource == id:
		return id, nil
	}
	if again, err := inPath(resource); err != nil || again != resource {
		return "", fmt.Errorf("es-distributed-lock locks the document %q by the ID %q, and another one by that name in turn", resource, id)
	}
	return resource, nil
}

// inPath is what a server reads in a path where the ID was written.
func inPath(id string) (string, error) {
	const prefix = "/index/_update/"
	u, err := url.Parse("http://" + prefix + id)
	if err != nil {
		return id, nil //nolint:nilerr // there is no request then
	}
	name, sent := strings.TrimPrefix(u.Path, prefix), strings.TrimPrefix(u.EscapedPath(), prefix)
	switch {
	case u.RawQuery != "" || u.ForceQuery:
		return "", fmt.Errorf("what es-distributed-lock locks by the ID %q, a server decides: it takes what follows the question mark for parameters", id)
	case sent == "" || strings.Contains(sent, "/") || len(name) > MaxID:
		return id, nil // no server takes it
	case !utf8.ValidString(name) || strings.Contains(name, "\x00"):
		return "", fmt.Errorf("what es-distributed-lock locks by the ID %q is no text", id)
	}
	return name, nil
}
