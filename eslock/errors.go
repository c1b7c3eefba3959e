package eslock

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/eslock/internal/rest"
)

// The error types of the server that the store distinguishes.
const (
	indexMissing = "index_not_found_exception"
	indexClosed  = "index_closed_exception"
	indexThere   = "resource_already_exists_exception"
	blocked      = "cluster_block_exception"
	scriptError  = "script_exception"
	clusterFull  = "validation_exception" // an index would have more shards than the cluster may
)

func hasType(err error, kind string) bool {
	var e *rest.Error
	return errors.As(err, &e) && e.Type == kind
}

// unfit reports whether the server did not store the document because it does not fit the
// mapping of the index.
func unfit(err error) bool {
	for _, kind := range []string{"mapper_parsing_exception", "document_parsing_exception", "strict_dynamic_mapping_exception"} {
		if hasType(err, kind) {
			return true
		}
	}
	return false
}

// indexError adds the name of the index to an error.
type indexError struct {
	index string
	// why is set if the request was not applied and somebody must fix the cause. The
	// error is then driver.ErrUnusable. Without it, the outcome is unknown.
	why string
	err error
}

func (e *indexError) Error() string {
	text := "index " + e.index
	if e.why != "" {
		text = driver.ErrUnusable.Error() + ": " + text + ": " + e.why
	}
	if e.err != nil {
		text += ": " + e.err.Error()
	}
	return text
}

func (e *indexError) Unwrap() error { return e.err }

// Is implements the interface of errors.Is.
func (e *indexError) Is(target error) bool { return e.why != "" && target == driver.ErrUnusable }

// wrap adds the name of the index, but only once. Errors that certainly do not pass by
// themselves become driver.ErrUnusable.
func (s *Store) wrap(err error) error {
	var named *indexError
	if err == nil || errors.As(err, &named) {
		return err
	}
	var e *rest.Error
	if errors.As(err, &e) {
		if hint := transient(e); hint != "" {
			err = fmt.Errorf("%s: %w", hint, err)
		}
		return &indexError{s.o.Index, s.permanent(e), err}
	}
	return &indexError{s.o.Index, "", err}
}

// unusable returns a driver.ErrUnusable with the reason, which wraps err if that is not
// nil.
func (s *Store) unusable(why string, err error) error {
	var named *indexError
	if errors.As(err, &named) {
		err = named.err
	}
	return &indexError{s.o.Index, why, err}
}

// permanent returns how to fix an error that does not pass by itself, or "".
//
//	answer                    can also mean                            certain with
//	401                       the index of the users is not there yet  the text: the client sent no password or key
//	                          after a restart, or its shard is away
//	403, security_exception   the roles cannot be looked up, likewise  the text: it names the roles, and all were found
//	403, of others            a firewall against too many requests     -
//	403, block                -                                        the type: somebody set the block
//	429 or 403, block 12      the server removes it when there is room -
//	413                       -                                        the code
//	no index, a closed one    -                                        the type
//	script, mapping           -                                        type and text
//	400 at Init               the most shards that a cluster may have  the type
func (s *Store) permanent(e *rest.Error) string {
	switch {
	case transient(e) != "":
		return ""
	case e.Type == indexClosed, e.Type == blocked && says(e, "index closed"):
		return "it is closed: open it (POST /" + s.o.Index + "/_open)"
	case e.Type == blocked && e.Status == http.StatusForbidden:
		return "writes are blocked: set the index.blocks that the error names to null"
	case e.Type == indexMissing:
		return "it is gone, or its alias is: open the store again, which makes it again where it can"
	case e.Status == http.StatusRequestEntityTooLarge:
		return "the server, or a proxy before it, refuses a request of a few kilobytes: raise its limit"
	case e.Status == http.StatusUnauthorized:
		return "the server wants user and password, or a key"
	case e.Status == http.StatusForbidden:
		return "the user lacks a right that the store needs: read, write and manage for " + s.o.Index + "*"
	case e.Type == scriptError && says(e, "compile error"), e.Type == "illegal_argument_exception" && says(e, "cannot execute"):
		return "the server does not allow inline Painless scripts in updates, which the store needs"
	case unfit(e):
		return "its mapping does not fit"
	}
	return ""
}

// transient returns what to do about an error that may pass by itself, or "". See
// permanent.
func transient(e *rest.Error) string {
	switch {
	case e.Type == blocked && (says(e, "read-only-allow-delete") || says(e, "/12/")):
		return "it is read-only, as the server makes it when a disk is nearly full: free space on the disk, and set index.blocks.read_only_allow_delete to null if the server does not"
	case e.Status == http.StatusUnauthorized && !says(e, "missing authentication credentials"):
		return "the server refuses user, password or key, or cannot look them up for now"
	case e.Status == http.StatusForbidden && e.Type != blocked && !denied(e):
		return "the user lacks a right that the store needs (read, write and manage), or its roles cannot be looked up for now"
	}
	return ""
}

// denied reports whether the server has found all roles of the user and they lack the
// right. It knows the texts of Elasticsearch from 8 on and of OpenSearch.
func denied(e *rest.Error) bool {
	return says(e, "with effective roles [") && !says(e, "were not found") || says(e, "for API key id [") || strings.HasPrefix(e.Reason, "no permissions for [")
}

func says(e *rest.Error, part string) bool { return strings.Contains(e.Reason, part) }
