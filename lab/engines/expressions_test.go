package engines_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

func TestNowInProjection(t *testing.T) {
	c := locks(t)
	fields := d("_id", 0, "at", 1, "now", "$$NOW", "left", d("$subtract", bson.A{"$end", "$$NOW"}))
	got := modify(t, c, "r", fields, d("$set", d("at", "$$NOW", "end", d("$add", bson.A{"$$NOW", 5000}), "more", 1)))
	if at, now := got["at"].(bson.DateTime), got["now"].(bson.DateTime); at != now {
		t.Errorf("stored %v, projected %v by the same command", at.Time(), now.Time())
	}
	if left := fmt.Sprint(got["left"]); left != "5000" || len(got) != 3 {
		t.Errorf("got %v, want three fields and 5000 left", got)
	}
	var found bson.M
	if err := c.FindOne(t.Context(), bson.D{}, options.FindOne().SetProjection(d("_id", 0, "now", "$$NOW"))).Decode(&found); err != nil {
		t.Fatal(err)
	}
	if _, ok := found["now"].(bson.DateTime); !ok || len(found) != 1 {
		t.Errorf("find: got %v, want only the time", found)
	}
}

// A caller's text is not evaluated, however often it is copied.
func TestLiteralsStayText(t *testing.T) {
	c := locks(t)
	for _, text := range []string{"$owner", "$$NOW", "$$ROOT", "$", "a.$b"} {
		hold := d("$mergeObjects", bson.A{d("$literal", d("owner", text, "of", bson.A{text})), d("since", "$$NOW")})
		modify(t, c, text, nil, d("$set", d("new", hold)), d("$set", d("holds", d("$concatArrays", bson.A{
			d("$filter", d("input", d("$ifNull", bson.A{"$holds", bson.A{}}), "cond", d("$ne", bson.A{"$$this.owner", ""}))),
			bson.A{"$new"},
		}))), d("$unset", "new"))
		// Again, with the stored value.
		got := modify(t, c, text, nil, d("$set", d("holds", d("$map", d("input", "$holds", "in", d("$cond", bson.A{true, "$$this", nil}))))))
		hold0 := got["holds"].(bson.A)[0].(bson.D)
		if owner, of := hold0[0].Value, hold0[1].Value.(bson.A)[0]; owner != text || of != text {
			t.Errorf("%q became %q and %q", text, owner, of)
		}
	}
}

// All fields of a $set see the document as it was before; a dot leads into a field.
func TestSetStage(t *testing.T) {
	c := locks(t)
	modify(t, c, "r", nil, d("$set", d("a", 1, "in.x", 1, "deep", d("x", 1), "gone", 1, "list", bson.A{d("k", 1), d("k", 2)})))
	got := modify(t, c, "r", d("_id", 0, "resource", 0), d("$set", d("a", 2, "b", "$a", "in", d("y", 2), "deep.y", d("z", 3),
		"gone", "$$REMOVE", "list.seen", true, "ks", "$list.k")))
	want := `{"a":2,"in":{"x":1,"y":2},"deep":{"x":1,"y":{"z":3}},"list":[{"k":1,"seen":true},{"k":2,"seen":true}],"b":1,"ks":[1,2]}`
	same(t, "stored", got, want)
}

func TestExpressions(t *testing.T) {
	c := locks(t)
	var stages bson.A
	cases := []struct {
		expression any
		want       string
	}{
		{d("$eq", bson.A{"$none", nil}), `false`}, // a missing field is less than null
		{d("$lt", bson.A{"$none", nil}), `true`},
		{d("$gt", bson.A{"$none", "$$NOW"}), `false`},
		{d("$gt", bson.A{"text", "$$NOW"}), `false`}, // types have an order
		{d("$gt", bson.A{true, 1}), `true`},
		{d("$eq", bson.A{int64(1), 1.0}), `true`},
		{d("$lt", bson.A{int64(1), 1.5}), `true`},
		{d("$lte", bson.A{bson.A{1, 2}, bson.A{1, 3}}), `true`},
		{d("$ne", bson.A{d("a", 1), d("a", int64(1))}), `false`},
		{d("$cmp", bson.A{"a", "b"}), `-1`},
		{d("$in", bson.A{int64(2), bson.A{1, 2.0}}), `true`},
		{d("$min", "$list"), `{"k":1}`}, // of an array, or of several arguments
		{d("$max", bson.A{"$none", nil, 2, 1.5}), `2`},
		{d("$min", d("$concatArrays", bson.A{bson.A{"text", nil}, bson.A{true, 7}})), `7`}, // null does not count
		{d("$max", d("$filter", d("input", "$list", "cond", false))), `null`},
		{d("$type", "$none"), `"missing"`},
		{d("$type", true), `"bool"`},
		{d("$type", "$$NOW"), `"date"`},
		{d("$type", "$list"), `"array"`},
		{d("$type", "$list.k"), `"array"`},
		{d("$isNumber", "$resource"), `false`},
		{d("$isArray", "$list"), `true`},
		{d("$isArray", bson.A{"$none"}), `false`},
		{d("$size", "$list"), `2`},
		{d("$ifNull", bson.A{"$none", nil, "$$REMOVE", 5}), `5`},
		{d("$cond", d("if", d("$and", bson.A{"$resource", 1}), "then", d("$literal", d("x", "$y")), "else", 0)), `{"x":"$y"}`},
		{d("$switch", d("branches", bson.A{d("case", false, "then", 1), d("case", d("$not", bson.A{0}), "then", 2)}, "default", 3)), `2`},
		{d("$let", d("vars", d("l", "$list"), "in", d("$arrayElemAt", bson.A{"$$l.k", -1}))), `2`},
		{d("$reduce", d("input", "$list.k", "initialValue", 0, "in", d("$add", bson.A{"$$value", "$$this"}))), `3`},
		{d("$map", d("input", bson.A{1, "$none"}, "as", "e", "in", bson.A{"$$e"})), `[[1],[null]]`},
		{d("$mergeObjects", bson.A{d("a", 1, "b", d("x", 1)), nil, d("b", d("y", "$none", "z", "$resource"))}), `{"a":1,"b":{"z":"r"}}`},
		{d("$max", bson.A{"$none", 3, d("$add", bson.A{2, 2})}), `4`},
		{d("$max", "$list.k"), `2`},
		{d("$subtract", bson.A{d("$add", bson.A{"$$NOW", 1500}), "$$NOW"}), `1500`},
		{d("$multiply", bson.A{d("$toLong", d("$toDate", int64(1_900_000_000_123))), 1000}), `1900000000123000`},
		{d("$concatArrays", bson.A{"$list.k", bson.A{d("$size", "$list"), "$none"}}), `[1,2,2,null]`},
		{d("$slice", bson.A{"$list.k", -1}), `[2]`},
		{d("$first", "$list"), `{"k":1}`},
		{d("$map", d("input", bson.A{0, 1, 2, -1}, "in", d("$arrayElemAt", bson.A{bson.A{"$resource", d("$literal", "$list")}, "$$this"}))), `["r","$list",null,"$list"]`},
		{d("$indexOfArray", bson.A{"$list", d("k", int64(2))}), `1`},
		{d("$indexOfArray", bson.A{"$list.k", "$none"}), `-1`},
		{d("$indexOfArray", bson.A{"$none", 1}), `null`},
		{d("$arrayToObject", bson.A{bson.A{d("k", "a", "v", "$resource")}}), `{"a":"r"}`},
		{d("$concat", bson.A{"a$", "$resource"}), `"a$r"`},
	}
	stages = append(stages, d("$set", d("list", bson.A{d("k", 1), d("k", 2)})))
	var results bson.D
	for i, tc := range cases {
		results = append(results, bson.E{Key: fmt.Sprint("case", i), Value: tc.expression})
	}
	got := modify(t, c, "r", nil, append(stages, d("$set", d("results", d("$mergeObjects", bson.A{results}))))...)
	for i, result := range got["results"].(bson.D) {
		same(t, extJSON(t, d("e", cases[i].expression)), d("v", result.Value), `{"v":`+cases[i].want+`}`)
	}
}

func extJSON(t *testing.T, document any) string {
	t.Helper()
	text, err := bson.MarshalExtJSON(document, false, false)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// same compares a document with JSON.
func same(t *testing.T, what string, got any, want string) {
	t.Helper()
	text := extJSON(t, got)
	var values [2]any
	for i, text := range []string{text, want} {
		if err := json.Unmarshal([]byte(text), &values[i]); err != nil {
			t.Fatal(err)
		}
	}
	if !reflect.DeepEqual(values[0], values[1]) {
		t.Errorf("%s\ngot  %s\nwant %s", what, text, want)
	}
}

func TestProjections(t *testing.T) {
	c := locks(t)
	modify(t, c, "r", nil, d("$set", d("a", 1, "in", d("x", 1, "y", 2), "list", bson.A{d("k", 1, "v", 1), d("k", 2), 3})),
		d("$set", d("_id", 7)))
	for _, tc := range []struct {
		fields bson.D
		want   string
	}{
		{d("a", 1), `{"_id":7,"a":1}`},
		{d("a", 0, "list", false), `{"_id":7,"resource":"r","in":{"x":1,"y":2}}`},
		{d("_id", 0), `{"resource":"r","a":1,"in":{"x":1,"y":2},"list":[{"k":1,"v":1},{"k":2},3]}`},
		{d("_id", 0, "in.y", 1, "list.k", 1), `{"in":{"y":2},"list":[{"k":1},{"k":2}]}`},
		{d("_id", 0, "in", d("x", 0), "list.k", 0), `{"resource":"r","a":1,"in":{"y":2},"list":[{"v":1},{},3]}`},
		{d("_id", 0, "in.x", 1, "in.z", d("$add", bson.A{"$a", 1})), `{"in":{"x":1,"z":2}}`},
		{d("_id", 0, "list", d("$filter", d("input", "$list", "as", "e", "cond", d("$eq", bson.A{"$$e.k", 2})))), `{"list":[{"k":2}]}`},
		{d("a", 1, "none", "$nothing"), `{"_id":7,"a":1}`},
	} {
		what := fmt.Sprint(tc.fields)
		var found, modified bson.D
		if err := c.FindOne(t.Context(), bson.D{}, options.FindOne().SetProjection(tc.fields)).Decode(&found); err != nil {
			t.Fatal(what, err)
		}
		same(t, "find "+what, found, tc.want)
		err := c.FindOneAndUpdate(t.Context(), bson.D{}, d("$set", d("a", 1)), options.FindOneAndUpdate().SetProjection(tc.fields)).Decode(&modified)
		if err != nil {
			t.Fatal(what, err)
		}
		same(t, "findAndModify "+what, modified, tc.want)
		cursor, err := c.Aggregate(t.Context(), bson.A{d("$match", d("a", 1)), d("$project", tc.fields)})
		if err != nil {
			t.Fatal(what, err)
		}
		var all []bson.D
		if err := cursor.All(t.Context(), &all); err != nil || len(all) != 1 {
			t.Fatal(what, len(all), err)
		}
		same(t, "$project "+what, all[0], tc.want)
	}
}
