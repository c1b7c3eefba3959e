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
)

// aliasSuffix makes the name of the alias that requests go to. Writes demand that
// their target is an alias, so that an index that was deleted is not made anew by
// the next write, with a mapping by chance and nobody's knowledge. It is one of
// Holdfast's own also where the index that the caller named is an alias: that may
// be rolled over or moved to another index, which knows nothing of the locks.
const aliasSuffix = "-holdfast"

// maxKeyword is the longest text that the keyword of a dynamic mapping has.
const maxKeyword = 256

// property is one of a mapping.
type property struct {
	Type       string              `json:"type,omitempty"`
	Dynamic    any                 `json:"dynamic,omitempty"`
	Enabled    *bool               `json:"enabled,omitempty"`
	Index      *bool               `json:"index,omitempty"`
	Format     string              `json:"format,omitempty"`
	Fields     map[string]property `json:"fields,omitempty"`
	Properties map[string]property `json:"properties,omitempty"`
}

// properties are the fields that must be mapped. Of holdfast only what is
// searched for is.
func properties() map[string]property {
	keyword, moment := property{Type: "keyword"}, property{Type: "date", Format: "epoch_millis"}
	return map[string]property{
		"owner":    {Type: "text", Fields: map[string]property{"keyword": keyword}},
		"acquired": {Type: "date"},
		"expires":  {Type: "date"},
		"holdfast": {Dynamic: "false", Properties: map[string]property{
			"time": moment, "due": moment,
			"holds": {Dynamic: "false", Properties: map[string]property{
				"lockId": keyword, "owner": keyword,
			}},
		}},
	}
}

// index is one as the server describes it.
type index struct {
	name       string
	DataStream string           `json:"data_stream"`
	Aliases    map[string]alias `json:"aliases"`
	Mappings   struct {
		Properties map[string]property `json:"properties"`
		Source     map[string]any      `json:"_source"`
		Routing    struct {
			Required bool `json:"required"`
		} `json:"_routing"`
	} `json:"mappings"`
	Settings struct {
		Index struct {
			Mode     string `json:"mode"`
			Translog struct {
				Durability string `json:"durability"`
			} `json:"translog"`
			Mapping struct {
				Source struct {
					Mode string `json:"mode"`
				} `json:"source"`
			} `json:"mapping"`
		} `json:"index"`
	} `json:"settings"`
}

type alias struct {
	Filter       json.RawMessage `json:"filter"`
	IsWriteIndex *bool           `json:"is_write_index"`
	Routing      string          `json:"index_routing"`
}

// Init implements driver.Initializer. It makes the index if it is missing. One
// that is there, as es-distributed-lock makes it, gets the fields that Holdfast
// adds, and the alias by which Holdfast writes; one that cannot keep locks is
// refused. The server compiles the scripts.
func (s *Store) Init(ctx context.Context) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	if err := s.prepare(ctx); err != nil {
		return s.explain(err)
	}
	s.compile(ctx)
	return nil
}

func (s *Store) prepare(ctx context.Context) error {
	own := s.o.Index + aliasSuffix
	for range maxTries { // others may make it at the same time
		x, err := s.describe(ctx, own)
		if err == nil && x == nil {
			x, err = s.describe(ctx, s.o.Index)
		}
		switch {
		case err != nil:
			return err
		case x != nil:
			return s.take(ctx, x, own)
		}
		if err := s.create(ctx, own); !hasType(err, indexThere) {
			return err
		}
	}
	return s.wrap(fmt.Errorf("it comes and goes"))
}

// describe returns what the server says of a name, or nil if there is no such
// index.
func (s *Store) describe(ctx context.Context, name string) (*index, error) {
	described := map[string]*index{}
	_, err := s.call(ctx, http.MethodGet, "/"+name, nil, nil, &described)
	switch {
	case hasType(err, indexMissing):
		return nil, nil
	case err != nil:
		return nil, err
	case len(described) > 1:
		return nil, s.unusable(fmt.Sprintf("%s is an alias of %d indices: it must be of one", name, len(described)), nil)
	}
	for n, x := range described {
		if x == nil || x.Aliases == nil {
			break
		}
		x.name = n
		return x, nil
	}
	return nil, s.wrap(fmt.Errorf("the server does not describe it"))
}

// explain makes an error lasting that a client makes of answers it does not like.
// The server may have done what was asked, which is no harm while it is opened.
func (s *Store) explain(err error) error {
	if err == nil || errors.Is(err, driver.ErrUnusable) {
		return err
	}
	if text := err.Error(); strings.Contains(text, "unknown product") || strings.Contains(text, "not Elasticsearch") {
		return s.unusable("the Elasticsearch client refuses this server: use OpenSearch's client for OpenSearch", err)
	}
	return err
}

func (s *Store) create(ctx context.Context, own string) error {
	settings := object{"number_of_shards": 1}
	switch n := s.o.Replicas; {
	case n > 0:
		settings["number_of_replicas"] = n
	case n < 0:
		settings["number_of_replicas"] = 0
	default:
		settings["auto_expand_replicas"] = "0-1"
	}
	err := s.put(ctx, http.MethodPut, "/"+s.o.Index, object{
		"settings": settings,
		"mappings": object{"properties": properties()},
		"aliases":  object{own: object{}},
	}, "it is missing, and the user may not make it")
	if err == nil {
		s.place.Store(&home{alias: own, index: s.o.Index})
	}
	return err
}

// take makes an index that is there ready, or says why it cannot be.
func (s *Store) take(ctx context.Context, x *index, own string) error {
	if why := x.misfit(); why != "" {
		return s.unusable(why+": use another index", nil)
	}
	there := x.hasAlias(own)
	if named, is := x.Aliases[s.o.Index]; x.name != s.o.Index {
		switch {
		case !is:
			return s.unusable(fmt.Sprintf("the locks are in %s, of which %s is no alias any more: what asks for a lock there and here would both be granted it. "+
				"Give that index the alias again, or, while nobody holds a lock, remove its alias %s", x.name, s.o.Index, own), nil)
		case !named.takesAll():
			return s.unusable(fmt.Sprintf("the locks are in %s, and writes to the alias %s go elsewhere, or see but a part of it: "+
				"let it have no filter and no routing, and write to that index; or, while nobody holds a lock, remove its alias %s", x.name, s.o.Index, own), nil)
		}
	}
	if a := x.Aliases[own]; there && !a.takesAll() {
		return s.unusable(fmt.Sprintf("the alias %s must have no filter and no routing, and take writes", own), nil)
	}
	if missing := x.unmapped(); len(missing) > 0 {
		err := s.put(ctx, http.MethodPut, "/"+x.name+"/_mapping", object{"properties": missing},
			"its mapping lacks fields, and the user may not add them")
		if err != nil {
			return err
		}
	}
	if !there {
		add := object{"add": object{"index": x.name, "alias": own}}
		if err := s.put(ctx, http.MethodPost, "/_aliases", object{"actions": []object{add}},
			"its alias "+own+" is missing, and the user may not make it"); err != nil {
			return err
		}
	}
	s.async.Store(strings.EqualFold(x.Settings.Index.Translog.Durability, "async"))
	s.place.Store(&home{alias: own, index: x.name})
	return nil
}

// takesAll: what is written to the alias goes to the index, as if it were named.
func (a alias) takesAll() bool {
	return len(a.Filter) == 0 && a.Routing == "" && (a.IsWriteIndex == nil || *a.IsWriteIndex)
}

func (x *index) hasAlias(name string) bool {
	_, is := x.Aliases[name]
	return is
}

// misfit says why the index cannot keep locks, or "".
func (x *index) misfit() string {
	if x.DataStream != "" {
		return "it is the data stream " + x.DataStream + ", whose documents do not change"
	}
	for key, value := range x.Mappings.Source {
		if !(key == "enabled" && value == true || key == "mode" && value == "stored") {
			return "its mapping does not keep documents as they are written (_source." + key + ")"
		}
	}
	if mode := x.Settings.Index.Mapping.Source.Mode; mode != "" && mode != "stored" {
		return "it does not keep documents as they are written (index.mapping.source.mode: " + mode + ")"
	}
	if mode := x.Settings.Index.Mode; mode != "" && mode != "standard" {
		return "it is no index for documents that change (index.mode: " + mode + ")"
	}
	if x.Mappings.Routing.Required {
		return "its mapping demands a routing"
	}
	for path, types := range map[string][]string{
		"owner":                 {"text", "keyword", "wildcard", "match_only_text"},
		"acquired":              {"date", "date_nanos"},
		"expires":               {"date", "date_nanos"},
		"holdfast":              {"", "object"},
		"holdfast.time":         {"date"},
		"holdfast.due":          {"date"},
		"holdfast.holds":        {"", "object"},
		"holdfast.holds.lockId": {"keyword"},
		"holdfast.holds.owner":  {"keyword"},
	} {
		p, is := at(x.Mappings.Properties, path)
		switch {
		case !is:
		case !slices.Contains(types, p.Type):
			return fmt.Sprintf("its field %s is mapped as %s, not as %s", path, p.Type, types[0])
		case p.Enabled != nil && !*p.Enabled, p.Index != nil && !*p.Index && path != "acquired":
			return fmt.Sprintf("its field %s is not indexed", path)
		}
	}
	return ""
}

// at finds a field by its path.
func at(properties map[string]property, path string) (p property, is bool) {
	for name := range strings.SplitSeq(path, ".") {
		p, is = properties[name]
		properties = p.Properties
	}
	return p, is
}

// unmapped are the fields that the mapping lacks.
func (x *index) unmapped() map[string]property {
	lacks := properties()
	for name := range lacks {
		if _, is := x.Mappings.Properties[name]; is && name != "holdfast" {
			delete(lacks, name)
		}
	}
	for _, path := range []string{"holdfast.time", "holdfast.due", "holdfast.holds.lockId", "holdfast.holds.owner"} {
		if _, is := at(x.Mappings.Properties, path); !is {
			return lacks
		}
	}
	delete(lacks, "holdfast")
	return lacks
}

// put sends a request that changes the index. denied says what it means that the
// user may not.
func (s *Store) put(ctx context.Context, method, path string, body object, denied string) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	var reply struct {
		Acknowledged bool `json:"acknowledged"`
	}
	_, err = s.call(ctx, method, path, url.Values{}, text, &reply)
	var e *serverError
	switch {
	case err == nil && !reply.Acknowledged:
		return s.wrap(fmt.Errorf("the servers did not all hear of the change in time"))
	case err == nil:
		return nil
	case errors.As(err, &e) && e.Status == http.StatusForbidden && e.Type != blocked:
		return s.unusable(denied+": let somebody who may open the store once", err)
	case errors.As(err, &e) && e.Status == http.StatusBadRequest && e.Type != indexThere && !errors.Is(err, driver.ErrUnusable):
		return s.unusable("the server refuses what the store needs of it", err)
	}
	return err
}
