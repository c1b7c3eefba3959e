package portable_test

import (
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/holdfast-go/holdfast/internal/mongokit"
	"github.com/holdfast-go/holdfast/lab/portable"
)

var obj = mongokit.Obj

func TestFaults(t *testing.T) {
	set := func(value any) bson.D {
		return obj("findAndModify", "locks", "query", obj("resource", "r"), "update", bson.A{obj("$set", obj("x.y", value))}, "upsert", true)
	}
	for name, c := range map[string]struct {
		command bson.D
		want    string // part of the expected fault; "" for none
	}{
		"fine":           {set(obj("$ifNull", bson.A{obj("$arrayElemAt", bson.A{"$a", 0}), obj("$literal", obj("$reduce", "$$REMOVE"))})), ""},
		"nested set":     {set(obj("now", "$$NOW", "ask", obj("$literal", obj("a", 1)))), ""},
		"now":            {set(obj("$add", bson.A{"$$NOW", 1})), ""},
		"now as l":       {set(obj("$filter", obj("input", "$a", "as", "l", "cond", obj("$gt", bson.A{"$$l.end", "$$NOW"})))), ""},
		"now in a let":   {set(obj("$let", obj("vars", obj("x", "$$NOW"), "in", "$$x"))), ""},
		"now built":      {set(obj("$mergeObjects", bson.A{"$a", obj("since", "$$NOW")})), "$$NOW in an object"},
		"now in a map":   {set(obj("$map", obj("input", "$a", "as", "l", "in", obj("since", obj("$add", bson.A{"$$NOW", 1}))))), "$$NOW in an object"},
		"reduce":         {set(obj("$reduce", obj("input", "$a", "initialValue", nil, "in", "$$this"))), "$reduce"},
		"deep":           {set(obj("$cond", bson.A{true, bson.A{obj("$switch", bson.D{})}, 1})), "$switch"},
		"remove":         {set(obj("$cond", bson.A{true, "$$REMOVE", 1})), "$$REMOVE"},
		"ifNull":         {set(obj("$ifNull", bson.A{"$a", "$b", 1})), "$ifNull"},
		"projection":     {obj("find", "locks", "projection", obj("x", obj("$first", "$a"))), "$first"},
		"bulk":           {obj("update", "locks", "updates", bson.A{obj("q", obj("_id", "r"), "u", bson.A{obj("$set", obj("a", obj("$rand", bson.D{})))})}), "$rand"},
		"stage":          {obj("update", "locks", "updates", bson.A{obj("q", obj("_id", "r"), "u", bson.A{obj("$replaceWith", "$a")})}), "$replaceWith"},
		"update by _id":  {obj("update", "locks", "updates", bson.A{obj("q", obj("_id", "r"), "u", bson.A{})}), ""},
		"upsert by _id":  {obj("findAndModify", "locks", "query", obj("_id", "r"), "update", bson.A{}, "upsert", true), "_id alone"},
		"upsert by expr": {obj("findAndModify", "locks", "query", obj("_id", "r", "$expr", true), "update", bson.A{}, "upsert", true), "$expr"},
	} {
		raw, err := bson.Marshal(c.command)
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(portable.Faults(raw), "; ")
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
