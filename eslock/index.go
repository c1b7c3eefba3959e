package eslock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/eslock/internal/rest"
)

// aliasSuffix is appended to the index for the alias that requests go to. Writes require
// an alias, so that the next write does not silently create a deleted index again, with a
// dynamic mapping. The alias is Holdfast's own even if the index that the caller named is
// an alias: somebody may roll that over or move it to another index, without the locks.
const aliasSuffix = "-holdfast"

// maxKeyword is the longest text in the keyword of a dynamic mapping.
const maxKeyword = 256

// fields are the fields that must be mapped, with the types that they may have. In
// holdfast, only the fields that searches use are mapped.
var fields = []struct {
	path  string
	types []string
}{
	{"owner", []string{"text", "keyword", "wildcard", "match_only_text"}},
	{"acquired", []string{"date", "date_nanos"}},
	{"expires", []string{"date", "date_nanos"}},
	{"holdfast", []string{"", "object"}},
	{"holdfast.time", []string{"date"}},
	{"holdfast.due", []string{"date"}},
	{"holdfast.holds", []string{"", "object"}},
	{"holdfast.holds.lockId", []string{"keyword"}},
	{"holdfast.holds.owner", []string{"keyword"}},
}

// mapping returns the mapping of the fields, for an index without them.
func mapping() object {
	keyword, moment := object{"type": "keyword"}, object{"type": "date", "format": "epoch_millis"}
	return object{
		"owner":    object{"type": "text", "fields": object{"keyword": keyword}},
		"acquired": object{"type": "date"},
		"expires":  object{"type": "date"},
		"holdfast": object{"dynamic": "false", "properties": object{
			"time": moment, "due": moment,
			"holds": object{"dynamic": "false", "properties": object{"lockId": keyword, "owner": keyword}},
		}},
	}
}

// property is a field in the server's description.
type property struct {
	Type           string
	Enabled, Index *bool
	Properties     map[string]property
}

// index is an index in the server's description, with flat settings.
type index struct {
	name       string
	DataStream string `json:"data_stream"`
	Aliases    map[string]alias
	Mappings   struct {
		Properties map[string]property
		Source     map[string]any          `json:"_source"`
		Routing    struct{ Required bool } `json:"_routing"`
	}
	Settings map[string]any
}

type alias struct {
	Filter  json.RawMessage
	Writes  *bool  `json:"is_write_index"`
	Routing string `json:"index_routing"`
}

// Init implements driver.Initializer. It creates the index if it is missing. To an
// existing index, such as one of es-distributed-lock, it adds Holdfast's fields and the
// alias by which Holdfast writes. It refuses an index that is unfit for locks. It makes
// the server compile the scripts.
func (s *Store) Init(ctx context.Context) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	err := s.prepare(ctx)
	switch {
	case err == nil:
		s.compile(ctx)
	case strings.Contains(err.Error(), "unknown product"), strings.Contains(err.Error(), "not Elasticsearch"):
		// The server may have applied the request, which does no harm here.
		return s.unusable("the Elasticsearch client refuses this server: use OpenSearch's client for OpenSearch", err)
	}
	return err
}

func (s *Store) prepare(ctx context.Context) error {
	// Other clients may create it at the same time. A created index is checked, too: an
	// index template may have changed it.
	for range maxTries {
		x, err := s.describe(ctx, s.alias)
		if err == nil && x == nil {
			x, err = s.describe(ctx, s.o.Index)
		}
		switch {
		case err != nil:
			return err
		case x != nil:
			return s.take(ctx, x)
		}
		if err := s.create(ctx); err != nil && !hasType(err, indexThere) {
			return err
		}
	}
	return s.wrap(fmt.Errorf("it is created and deleted all the time"))
}

// describe returns the server's description of a name, or nil if there is no such
// index.
func (s *Store) describe(ctx context.Context, name string) (*index, error) {
	described := map[string]*index{}
	err := s.call(ctx, http.MethodGet, "/"+name, url.Values{"flat_settings": {"true"}}, nil, &described)
	switch {
	case hasType(err, indexMissing):
		return nil, nil
	case err != nil:
		return nil, err
	case len(described) > 1:
		return nil, s.unusable(fmt.Sprintf("%s is an alias of %d indices: it must be of one", name, len(described)), nil)
	}
	for n, x := range described {
		if x != nil && x.Aliases != nil {
			x.name = n
			return x, nil
		}
	}
	return nil, s.wrap(fmt.Errorf("the server does not describe it"))
}

func (s *Store) create(ctx context.Context) error {
	settings := object{"number_of_shards": 1}
	switch n := s.o.Replicas; {
	case n > 0:
		settings["number_of_replicas"] = n
	case n < 0:
		settings["number_of_replicas"] = 0
	default:
		settings["auto_expand_replicas"] = "0-1"
	}
	return s.change(ctx, http.MethodPut, "/"+s.o.Index, object{
		"settings": settings,
		"mappings": object{"properties": mapping()},
		"aliases":  object{s.alias: object{}},
	}, "it is missing, and the user has no right to create it")
}

// take prepares an existing index, or returns the reason why it cannot.
func (s *Store) take(ctx context.Context, x *index) error {
	missing, why := x.compare()
	if why == "" {
		why = x.unfitReason()
	}
	if why != "" {
		return s.unusable(why+": use another index", nil)
	}
	ours, there := x.Aliases[s.alias]
	named, is := x.Aliases[s.o.Index]
	switch {
	case x.name != s.o.Index && !is:
		return s.unusable(fmt.Sprintf("the locks are in %s, of which %s is no longer an alias: a lock could be granted there and here at the same time. "+
			"Give that index the alias again, or, while no lock is held, remove its alias %s", x.name, s.o.Index, s.alias), nil)
	case x.name != s.o.Index && !named.acceptsAllWrites():
		return s.unusable(fmt.Sprintf("the locks are in %s, and writes to the alias %s go elsewhere, or see only a part of it: "+
			"let it have no filter and no routing, and write to that index; or, while no lock is held, remove its alias %s", x.name, s.o.Index, s.alias), nil)
	case there && !ours.acceptsAllWrites():
		return s.unusable(fmt.Sprintf("the alias %s must have no filter and no routing, and take writes", s.alias), nil)
	}
	if len(missing) > 0 {
		err := s.change(ctx, http.MethodPut, "/"+x.name+"/_mapping", object{"properties": missing},
			"its mapping lacks fields, and the user has no right to add them")
		if err != nil {
			return err
		}
	}
	if !there {
		add := object{"add": object{"index": x.name, "alias": s.alias}}
		if err := s.change(ctx, http.MethodPost, "/_aliases", object{"actions": []object{add}},
			"its alias "+s.alias+" is missing, and the user has no right to create it"); err != nil {
			return err
		}
	}
	s.async.Store(strings.EqualFold(x.setting("translog.durability"), "async"))
	s.index.Store(&x.name)
	return nil
}

// acceptsAllWrites reports whether all writes to the alias go to the index, unchanged.
func (a alias) acceptsAllWrites() bool {
	return len(a.Filter) == 0 && a.Routing == "" && (a.Writes == nil || *a.Writes)
}

// setting returns a setting of the index, or "".
func (x *index) setting(name string) string {
	text, _ := x.Settings["index."+name].(string)
	return text
}

// unfitReason returns why the settings of the index make it unfit for locks, or "".
func (x *index) unfitReason() string {
	if x.DataStream != "" {
		return "it is the data stream " + x.DataStream + ", whose documents do not change"
	}
	for key, value := range x.Mappings.Source {
		if !(key == "enabled" && value == true || key == "mode" && value == "stored") {
			return "its mapping does not keep documents as they are written (_source." + key + ")"
		}
	}
	if mode := x.setting("mapping.source.mode"); mode != "" && mode != "stored" {
		return "it does not keep documents as they are written (index.mapping.source.mode: " + mode + ")"
	}
	if mode := x.setting("mode"); mode != "" && mode != "standard" {
		return "it is not an index for documents that change (index.mode: " + mode + ")"
	}
	if x.Mappings.Routing.Required {
		return "its mapping requires a routing"
	}
	return ""
}

// compare returns the fields that the mapping lacks, or why a field does not fit.
func (x *index) compare() (missing object, why string) {
	missing = object{}
	for _, f := range fields {
		p, is := at(x.Mappings.Properties, f.path)
		switch {
		case !is:
			top, _, _ := strings.Cut(f.path, ".")
			missing[top] = mapping()[top]
		case !slices.Contains(f.types, p.Type):
			return nil, fmt.Sprintf("its field %s is mapped as %s, not as %s", f.path, p.Type, f.types[0])
		case p.Enabled != nil && !*p.Enabled, p.Index != nil && !*p.Index && f.path != "acquired":
			return nil, fmt.Sprintf("its field %s is not indexed", f.path)
		}
	}
	return missing, ""
}

// at finds a field by its path.
func at(properties map[string]property, path string) (p property, is bool) {
	for name := range strings.SplitSeq(path, ".") {
		p, is = properties[name]
		properties = p.Properties
	}
	return p, is
}

// change sends a request that changes the index. without is the error text if the user
// lacks the right to do that.
func (s *Store) change(ctx context.Context, method, path string, body object, without string) error {
	var reply struct{ Acknowledged bool }
	err := s.call(ctx, method, path, nil, body, &reply)
	var e *rest.Error
	switch {
	case err == nil && !reply.Acknowledged:
		return s.wrap(fmt.Errorf("not all servers confirmed the change in time"))
	case !errors.As(err, &e):
	case e.Status == http.StatusForbidden && errors.Is(err, driver.ErrUnusable) && e.Type != blocked:
		return s.unusable(without+": let a user with that right open the store once", err)
	case e.Status == http.StatusBadRequest && e.Type != indexThere && e.Type != clusterFull && !errors.Is(err, driver.ErrUnusable):
		return s.unusable("the server refuses a change that the store needs", err)
	}
	return err
}
