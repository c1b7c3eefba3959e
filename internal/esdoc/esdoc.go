// Package esdoc maps the names of locks to documents of an index, by the rules of package
// eslock and by the rules of programs with es-distributed-lock.
package esdoc

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"strings"
	"unicode/utf8"
)

// MaxID is the length of the longest ID of a document, in bytes.
const MaxID = 512

// hashed is the prefix of IDs that are hashes of names.
const hashed = "sha256-"

// ID returns the ID of the document of a resource. No two resources share an ID, because
// a name that looks like a hash is hashed, too.
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

// Old returns the resource whose document programs with es-distributed-lock lock by an
// ID: they write it into the path of a URL as it is. It returns the ID itself if they
// cannot lock anything by it. The error says why the resource is unknown or unusable.
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
	// Slashes at the end of the name are harmless: the name is not the ID of the lock
	// that it names.
	if again, err := inPath(resource); err != nil || again != resource && again != strings.TrimRight(resource, "/") {
		return "", fmt.Errorf("es-distributed-lock locks the document %q by the ID %q, and another document by that name in turn", resource, id)
	}
	return resource, nil
}

// inPath returns the ID that a server reads at the end of a path: it drops slashes at the
// end unless they are escaped.
func inPath(id string) (string, error) {
	const prefix = "/index/_update/"
	u, err := url.Parse("http://" + prefix + id)
	if err != nil {
		return id, nil //nolint:nilerr // no request is sent then
	}
	name, sent := strings.TrimPrefix(u.Path, prefix), strings.TrimPrefix(u.EscapedPath(), prefix)
	kept := strings.TrimRight(sent, "/")
	name, sent = name[:len(name)-(len(sent)-len(kept))], kept
	switch {
	case u.RawQuery != "" || u.ForceQuery:
		return "", fmt.Errorf("a server decides what es-distributed-lock locks by the ID %q: it takes what follows the question mark for parameters", id)
	case sent == "" || strings.Contains(sent, "/") || len(name) > MaxID:
		return id, nil // no server accepts it
	case !utf8.ValidString(name) || strings.Contains(name, "\x00"):
		return "", fmt.Errorf("what es-distributed-lock locks by the ID %q is not valid text", id)
	}
	return name, nil
}
