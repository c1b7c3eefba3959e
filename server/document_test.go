package server_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock/wire"
	"github.com/holdfast-go/holdfast/server"
)

// documentURL names the document. A plain file name would be one in the working directory,
// whatever its path is.
const documentURL = "https://holdfast.example/openapi.json"

// described is openapi.yaml, made exact: an answer has no member that it does not describe.
type described struct {
	doc     *openapi3.T
	schemas map[string]*jsonschema.Schema // by reference
}

var document = sync.OnceValues(func() (*described, error) {
	doc, err := openapi3.NewLoader().LoadFromData([]byte(server.OpenAPI()))
	if err != nil {
		return nil, err
	}
	no := false
	for _, schema := range doc.Components.Schemas {
		if schema.Value.Type.Includes("object") {
			schema.Value.AdditionalProperties = openapi3.BoolSchema{Has: &no}
		}
	}
	text, err := doc.MarshalJSON()
	if err != nil {
		return nil, err
	}
	whole, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource(documentURL, whole); err != nil {
		return nil, err
	}
	d := &described{doc, make(map[string]*jsonschema.Schema)}
	for name := range doc.Components.Schemas {
		ref := "#/components/schemas/" + name
		if d.schemas[ref], err = c.Compile(documentURL + ref); err != nil {
			return nil, err
		}
	}
	return d, nil
})

// check reports whether the text is as the schema says.
func (d *described) check(schema *openapi3.SchemaRef, text []byte) error {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	return d.schemas[schema.Ref].Validate(v)
}

func TestDocumentIsValid(t *testing.T) {
	doc, err := openapi3.NewLoader().LoadFromData([]byte(server.OpenAPI()))
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// heldAgainstDocument checks an answer, and the request if it was served.
func heldAgainstDocument(t testing.TB, method, path string, request []byte, a answer) {
	t.Helper()
	d, err := document()
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(path)
	if err != nil {
		t.Fatal(err)
	}
	item := d.doc.Paths.Value(u.Path)
	if item == nil || item.GetOperation(method) == nil {
		if a.status != http.StatusNotFound && a.status != http.StatusMethodNotAllowed {
			t.Errorf("%s %s is not described, and answers %d", method, path, a.status)
		}
		if err := d.check(openapi3.NewSchemaRef("#/components/schemas/Refusal", nil), a.body); err != nil {
			t.Errorf("%s: %v", a.body, err)
		}
		return
	}
	op := item.GetOperation(method)
	response := op.Responses.Status(a.status)
	if response == nil {
		t.Errorf("%s %s answers %d, which is not described: %s", method, path, a.status, a.body)
		return
	}
	media := response.Value.Content[a.header.Get("Content-Type")]
	if media == nil {
		t.Errorf("%s %s answers %d with %q, which is not described", method, path, a.status, a.header.Get("Content-Type"))
		return
	}
	known := []string{"Content-Type", "Content-Length", "Cache-Control", "X-Content-Type-Options", "Date", "Connection", "X-Accel-Buffering", "Allow"}
	for name := range response.Value.Headers {
		known = append(known, http.CanonicalHeaderKey(name))
	}
	for name := range a.header {
		if !slices.Contains(known, name) {
			t.Errorf("%s %s answers %d with the header %s, which is not described", method, path, a.status, name)
		}
	}
	switch a.header.Get("Content-Type") {
	case wire.NDJSON:
		for line := range bytes.Lines(a.body) {
			if err := d.check(media.Schema, line); err != nil {
				t.Errorf("%s: %s: %v", path, line, err)
			}
		}
	case wire.JSON, wire.ProblemJSON:
		if err := d.check(media.Schema, a.body); err != nil {
			t.Errorf("%s %s: %d %.2000s: %v", method, path, a.status, a.body, err)
		}
	}
	if request == nil || a.status != http.StatusOK && a.status != http.StatusConflict {
		return
	}
	if u.Path == wire.RenewPath || u.Path == wire.ReleasePath {
		d.checkItems(t, u.Path, request, a.body)
	} else if err := d.check(op.RequestBody.Value.Content[wire.JSON].Schema, request); err != nil {
		t.Errorf("%s takes %.2000s, which is not described: %v", path, request, err)
	}
}

// checkItems checks the items of a batch that were not refused as invalid.
func (d *described) checkItems(t testing.TB, path string, request, answer []byte) {
	t.Helper()
	var items struct{ Holds []json.RawMessage }
	var results struct {
		Results []struct{ Outcome wire.Outcome }
	}
	if err := errors.Join(json.Unmarshal(request, &items), json.Unmarshal(answer, &results)); err != nil {
		t.Fatal(err)
	}
	if len(results.Results) != len(items.Holds) {
		t.Errorf("%s has %d results for %d items", path, len(results.Results), len(items.Holds))
		return
	}
	name := map[string]string{wire.RenewPath: "Renewal", wire.ReleasePath: "Release"}[path]
	for i, item := range items.Holds {
		if results.Results[i].Outcome == wire.Invalid {
			continue
		}
		if err := d.check(openapi3.NewSchemaRef("#/components/schemas/"+name, nil), item); err != nil {
			t.Errorf("%s takes %.2000s, which is not described: %v", path, item, err)
		}
	}
}

// The examples are what a server takes, and what it answers to them but for tokens and times.
func TestExamples(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, err := document()
		if err != nil {
			t.Fatal(err)
		}
		s := newSite(t, nil, &server.Options{Identify: operator})
		exchanges := []struct {
			path   string
			status int
		}{
			{wire.AcquirePath, http.StatusOK}, {wire.RenewPath, http.StatusOK}, {wire.AcquirePath, http.StatusConflict},
			{wire.ReleasePath, http.StatusOK}, {wire.AcquirePath, http.StatusOK}, {wire.ForceReleasePath, http.StatusOK}, {wire.SweepPath, http.StatusOK},
		}
		for _, x := range exchanges {
			op := d.doc.Paths.Value(x.path).Post
			request := maps.Clone(op.RequestBody.Value.Content[wire.JSON].Example.(map[string]any))
			if x.status == http.StatusConflict { // another caller asks
				request["holdId"], request["waitMs"] = driver.NewHoldID().String(), 1000
			}
			a := s.post(x.path, request)
			if a.status != x.status {
				t.Fatalf("%s: %d %s", x.path, a.status, a.body)
			}
			media := op.Responses.Status(x.status).Value.Content[a.header.Get("Content-Type")]
			want, err := json.Marshal(media.Example)
			if err != nil {
				t.Fatal(err)
			}
			if err := d.check(media.Schema, want); err != nil {
				t.Errorf("the example of %s: %v", x.path, err)
			}
			if got, want := names(t, a.body), names(t, want); !slices.Equal(got, want) {
				t.Errorf("%s answers with the members %v, and the example has %v", x.path, got, want)
			}
		}
	})
}

// names returns the members of a JSON object, sorted.
func names(t *testing.T, text []byte) []string {
	t.Helper()
	var v map[string]json.RawMessage
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	return slices.Sorted(maps.Keys(v))
}

// The document has just the members that the types of package wire have.
func TestDocumentHasAllMembers(t *testing.T) {
	d, err := document()
	if err != nil {
		t.Fatal(err)
	}
	for name, v := range map[string]any{
		"AcquireRequest": wire.AcquireRequest{}, "Grant": wire.Grant{}, "RenewRequest": wire.RenewRequest{},
		"Renewal": wire.Renewal{}, "RenewAnswer": wire.RenewAnswer{}, "RenewResult": wire.RenewResult{}, "ReleaseRequest": wire.ReleaseRequest{},
		"Release": wire.Release{}, "ReleaseAnswer": wire.ReleaseAnswer{}, "ReleaseResult": wire.ReleaseResult{}, "ForceRequest": wire.ForceRequest{},
		"SweepRequest": wire.SweepRequest{}, "SweepAnswer": wire.SweepAnswer{}, "Hold": wire.Hold{}, "Waiter": wire.Waiter{},
		"PastHold": wire.PastHold{}, "PastMoment": wire.PastMoment{}, "Kept": wire.Kept{}, "HistoryGap": wire.HistoryGap{}, "History": wire.History{}, "HoldList": wire.HoldList{}, "WaiterList": wire.WaiterList{}, "End": wire.End{}, "Count": wire.Count{}, "Traits": wire.Traits{},
		"HeldRefusal": wire.Refusal{},
	} {
		var got []string
		for member := range d.doc.Components.Schemas[name].Value.Properties {
			got = append(got, member)
		}
		want := members(reflect.TypeOf(v))
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s has %v, want %v", name, got, want)
		}
	}
	var kinds []string
	for _, kind := range d.doc.Components.Schemas["Refusal"].Value.Properties["type"].Value.Enum {
		kinds = append(kinds, kind.(string))
	}
	for kind, status := range wire.Kinds() {
		if kind != wire.KindHeld && !slices.Contains(kinds, "urn:holdfast:"+string(kind)) {
			t.Errorf("kind %s (%s) is missing", kind, strconv.Itoa(status))
		}
	}
}

func members(t reflect.Type) (all []string) {
	for f := range t.Fields() {
		if f.Anonymous {
			embedded := f.Type
			if embedded.Kind() == reflect.Pointer {
				embedded = embedded.Elem()
			}
			all = append(all, members(embedded)...)
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		all = append(all, name)
	}
	return all
}
