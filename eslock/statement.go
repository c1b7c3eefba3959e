package eslock

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"regexp"
	"strings"
	"sync"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/esdoc"
)

// The statements. Their text is constant, so that the server compiles each of them only
// once; values of callers are parameters.
var (
	//go:embed read.painless
	readText string
	//go:embed acquire.painless
	acquireText string
	//go:embed renew.painless
	renewText string
	//go:embed release.painless
	releaseText string
)

var (
	acquire = newStatement(acquireText)
	renew   = newStatement(renewText)
	release = newStatement(releaseText)
	// look is a renewal of nothing, and sweep a release of nothing.
	look, sweep = renew, release
)

const (
	// fetch selects the script's answer for the reply, even if it was not stored: without
	// a filter the reply of a script that stores nothing has the document as it was.
	// fetchHolds adds the stored holds, for a refusal that stores a place.
	fetch      = `{"_source":{"includes":["holdfast.answer"]},`
	fetchHolds = `{"_source":{"includes":["holdfast.answer","holdfast.holds"]},`
	// upsert runs the script even if the document does not exist.
	upsert = `"scripted_upsert":true,"upsert":{},`
)

// statement is one kind of update.
type statement struct {
	script func() string // the body up to the parameters
}

// newStatement makes the statement of a script. The first use compacts the script, which
// takes some ms that programs with another store do not spend.
func newStatement(text string) *statement {
	return &statement{sync.OnceValue(func() string {
		source, err := json.Marshal(compact(readText + text))
		if err != nil {
			panic(err) // a string can be encoded
		}
		return `"script":{"lang":"painless","source":` + string(source) + `,"params":`
	})}
}

// compact removes comments and unneeded space, because the text is in every request.
func compact(script string) string {
	return strings.TrimSpace(spaces().ReplaceAllString(comments().ReplaceAllString(script, "$1"), "$1$2"))
}

var (
	comments = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`('[^']*')|//.*`) })
	// spaces matches texts, which stay, and characters outside words, with the space
	// around both.
	spaces = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`('[^']*')\s*|\s*([^\w\s'])\s*`) })
)

// write appends an update to a bulk. The server itself repeats it up to inside times.
// Names are only in the body: in a path, clients and proxies may interpret them in their
// own way.
func (st *statement) write(b *bytes.Buffer, u *update, inside int, options string) error {
	var action struct {
		Update struct {
			ID         string `json:"_id"`
			OnConflict int    `json:"retry_on_conflict"`
		} `json:"update"`
	}
	action.Update.ID, action.Update.OnConflict = u.ID, inside
	if err := json.NewEncoder(b).Encode(action); err != nil { // ends with a line feed
		return err
	}
	params, err := json.Marshal(u)
	if err != nil {
		return err
	}
	returns := fetch
	if u.acquireParams != nil && u.Place != nil {
		returns = fetchHolds
	}
	script := st.script()
	b.Grow(len(returns) + len(options) + len(script) + len(params) + len("}}\n")) // once, not in steps: the script is long
	for _, part := range []string{returns, options, script} {
		b.WriteString(part)
	}
	b.Write(params)
	b.WriteString("}}\n")
	return nil
}

// The parameters. Durations are in ms; null means Forever.
type (
	document struct {
		ID string `json:"id"`
		// Resource is the name that the document must have; nil: any.
		Resource *string `json:"resource"`
	}
	acquireParams struct {
		TTL  *int64   `json:"ttl"`
		Hold holdJSON `json:"hold"`
		// Place is the request's place without its times, if it wants one. If PlaceTTL is
		// 0, an existing place counts, but none is written.
		Place    json.RawMessage `json:"place,omitempty"`
		PlaceTTL int64           `json:"placeTtl,omitempty"`
	}
	// refParams is a request about an existing hold.
	refParams struct {
		LockID string        `json:"lockId"`
		HoldID driver.HoldID `json:"holdId"`
		Token  uint64        `json:"token"`
		// Of a renewal:
		TTL *int64 `json:"ttl"`
		// Of a release:
		After        int64  `json:"after"`
		End          *int64 `json:"end"` // the end of a hold without a hold ID
		SpareRenewed bool   `json:"spareRenewed,omitempty"`
		Place        string `json:"place,omitempty"`
	}
)

// documentOf returns the document of a resource. The statements compare the names.
func documentOf(resource string) document {
	return document{ID: esdoc.ID(resource), Resource: &resource}
}

func refOf(r driver.HoldRef) refParams {
	return refParams{LockID: r.LockID, HoldID: r.HoldID, Token: r.Token}
}
