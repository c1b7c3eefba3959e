package eslock

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"strings"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/esdoc"
)

// The statements. Their text is constant, so that the server compiles each of
// them once; what a caller chose comes as parameters.
var (
	//go:embed read.painless
	readText string
	//go:embed look.painless
	lookText string
	//go:embed acquire.painless
	acquireText string
	//go:embed renew.painless
	renewText string
	//go:embed release.painless
	releaseText string
	//go:embed sweep.painless
	sweepText string
)

var (
	lookAt  = newStatement(lookText, "", nil)
	acquire = newStatement(acquireText, upsert, isGranted)
	renew   = newStatement(renewText, "", hasEnds).ofRefs()
	release = newStatement(releaseText, "", hasFound).ofRefs()
	sweep   = newStatement(sweepText, "", hasSwept)
)

var statements = []*statement{lookAt, acquire, renew, release, sweep}

// upsert runs the script where there is no document, too.
const upsert = `"scripted_upsert":true,"upsert":{},`

// fetch makes a reply contain what the script left there, even if it was not
// stored: without a filter the reply of a script that stores nothing has the
// document as it was.
const fetch = `"_source":{"includes":["holdfast.answer"]},`

// statement is one kind of update.
type statement struct {
	options string // of the update
	script  string // up to the parameters
	// check says what is wrong with the answer where something was stored, or "".
	check func(a *answerJSON) string
	// refs: an update does what is asked of all the holds of its document.
	refs bool
}

func storesNothing(*answerJSON) string { return "it stored something" }

func (st *statement) ofRefs() *statement {
	st.refs = true
	return st
}

func newStatement(text, options string, check func(a *answerJSON) string) *statement {
	if check == nil {
		check = storesNothing
	}
	source, err := json.Marshal(compact(readText + text))
	if err != nil {
		panic(err) // of a string, which has none
	}
	return &statement{
		options: fetch + options,
		script:  `"script":{"lang":"painless","source":` + string(source) + `,"params":`,
		check:   check,
	}
}

// compact leaves out comments and indentation, for the text is in every request.
func compact(script string) string {
	var b strings.Builder
	for line := range strings.Lines(script) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "//") {
			b.WriteString(line)
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// body appends the update with its parameters.
func (st *statement) body(b *bytes.Buffer, params any) error { return st.write(b, st.options, params) }

// trial appends an update that has the script compiled and changes nothing, for
// there is no document, an empty lock ID has no hold, and nothing is asked of others.
func (st *statement) trial(b *bytes.Buffer, d document) error {
	none := driver.HoldID{}
	return st.write(b, upsert, struct {
		acquireParams
		Refs []any `json:"refs"`
	}{acquireParams{document: d, Hold: holdJSON{HoldID: &none, Mode: new(driver.Mode)}}, []any{}})
}

func (st *statement) write(b *bytes.Buffer, options string, params any) error {
	p, err := json.Marshal(params)
	if err != nil {
		return err
	}
	b.Grow(len(options) + len(st.script) + len(p) + len("{}}\n")) // once, not in steps: the script is long
	b.WriteByte('{')
	b.WriteString(options)
	b.WriteString(st.script)
	b.Write(p)
	b.WriteString("}}")
	return nil
}

// The parameters. Durations are in ms; null is Forever.
type (
	document struct {
		ID string `json:"id"`
		// Resource is the name that the document must have; nil: any.
		Resource *string `json:"resource"`
	}
	acquireParams struct {
		document
		Limit    int      `json:"limit"`
		OwnLimit bool     `json:"ownLimit"`
		TTL      *int64   `json:"ttl"`
		Hold     holdJSON `json:"hold"`
	}
	// refsParams are what is asked of the holds of a document.
	refsParams struct {
		document
		Refs []any `json:"refs"`
	}
	refParams struct {
		LockID string        `json:"lockId"`
		HoldID driver.HoldID `json:"holdId"`
		Token  uint64        `json:"token"`
	}
	renewParams struct {
		refParams
		TTL   *int64 `json:"ttl"`
		Exact bool   `json:"exact"`
	}
	releaseParams struct {
		refParams
		After int64 `json:"after"`
		// End is that of the hold, if it has no hold ID.
		End *int64 `json:"end"`
	}
)

// documentOf names the document of a resource. The statements compare the names.
func documentOf(resource string) document {
	return document{ID: esdoc.ID(resource), Resource: &resource}
}

func refOf(r driver.HoldRef) refParams {
	return refParams{LockID: r.LockID, HoldID: r.HoldID, Token: r.Token}
}
