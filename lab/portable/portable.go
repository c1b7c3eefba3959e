// Package portable checks that the commands sent to MongoDB use only forms that all servers of
// its protocol accept and interpret alike. The tests run on an emulator, so this check replaces
// tests on the other servers.
package portable

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// operators are the operators of expressions that all servers evaluate alike. $reduce is not
// among them: if its first value is null, DocumentDB returns null. Some servers do not have
// $first.
var operators = func() map[string]bool {
	m := make(map[string]bool)
	for name := range strings.FieldsSeq(`
		$and $or $not $eq $ne $gt $gte $lt $lte $in $cond $ifNull $let $literal $type
		$add $subtract $multiply $min $max $toLong
		$filter $map $concatArrays $size $slice $arrayElemAt $indexOfArray $mergeObjects`) {
		m[name] = true
	}
	return m
}()

// bound are the operators whose argument is a document of parameters. It does not become an
// object.
var bound = map[string]bool{"$filter": true, "$map": true, "$let": true, "vars": true}

// Client returns options for a client that fails the test if it sends a command that is not
// portable.
func Client(t testing.TB) *options.ClientOptions {
	var mu sync.Mutex
	told := make(map[string]bool)
	return options.Client().SetMonitor(&event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) {
		for _, fault := range Faults(e.Command) {
			mu.Lock()
			if !told[fault] {
				t.Errorf("%s: %s", e.CommandName, fault)
			}
			told[fault] = true
			mu.Unlock()
		}
	}})
}

// Faults returns the parts of a command that are not portable.
func Faults(command bson.Raw) []string {
	var c checker
	c.update(command, "query", "update", "upsert") // findAndModify
	for _, projection := range []string{"fields", "projection"} {
		for _, e := range elements(command.Lookup(projection)) {
			c.expression(e.Value(), false)
		}
	}
	for _, u := range elements(command.Lookup("updates")) {
		if doc, ok := u.Value().DocumentOK(); ok {
			c.update(doc, "q", "u", "upsert")
		}
	}
	return c.faults
}

// checker collects the faults of a command.
type checker struct{ faults []string }

func (c *checker) say(format string, args ...any) {
	c.faults = append(c.faults, fmt.Sprintf(format, args...))
}

func (c *checker) update(command bson.Raw, query, update, upsert string) {
	if is, _ := command.Lookup(upsert).BooleanOK(); is {
		fields := elements(command.Lookup(query))
		if len(fields) == 1 && fields[0].Key() == "_id" {
			c.say("an upsert by _id alone: DocumentDB lets one of two that race overwrite what the other has inserted")
		}
		for _, f := range fields {
			if f.Key() == "$expr" {
				c.say("an upsert by $expr")
			}
		}
	}
	if stages := command.Lookup(update); stages.Type == bson.TypeArray {
		for _, stage := range elements(stages) {
			for _, e := range elements(stage.Value()) {
				switch e.Key() {
				case "$set":
					c.set(e.Value())
				case "$unset":
				default:
					c.say("the stage %s", e.Key())
				}
			}
		}
	}
}

// set checks the fields of a stage. Fields of documents in them are fields too.
func (c *checker) set(v bson.RawValue) {
	for _, e := range elements(v) {
		if fields := elements(e.Value()); e.Value().Type == bson.TypeEmbeddedDocument && len(fields) > 0 && !strings.HasPrefix(fields[0].Key(), "$") {
			c.set(e.Value())
			continue
		}
		c.expression(e.Value(), false)
	}
}

// expression checks a value. built means that an operator around it builds an object.
func (c *checker) expression(v bson.RawValue, built bool) {
	switch v.Type {
	case bson.TypeString:
		switch name := v.StringValue(); {
		case strings.HasPrefix(name, "$$REMOVE"), strings.HasPrefix(name, "$$ROOT"), strings.HasPrefix(name, "$$CURRENT"):
			c.say("the variable %s", name)
		case name == "$$NOW" && built:
			c.say("$$NOW in an object that an operator builds: DocumentDB refuses it")
		}
	case bson.TypeArray:
		for _, e := range elements(v) {
			c.expression(e.Value(), built)
		}
	case bson.TypeEmbeddedDocument:
		for _, e := range elements(v) {
			switch name := e.Key(); {
			case name == "$literal":
			case !strings.HasPrefix(name, "$"):
				c.expression(e.Value(), true)
			case !operators[name]:
				c.say("the operator %s", name)
			case bound[name]:
				c.parameters(e.Value(), built)
			default:
				if name == "$ifNull" && len(elements(e.Value())) != 2 {
					c.say("$ifNull with more than two arguments")
				}
				c.expression(e.Value(), built)
			}
		}
	}
}

func (c *checker) parameters(v bson.RawValue, built bool) {
	for _, e := range elements(v) {
		if bound[e.Key()] {
			c.parameters(e.Value(), built)
		} else {
			c.expression(e.Value(), built)
		}
	}
}

// elements returns the elements of a document or an array.
func elements(v bson.RawValue) []bson.RawElement {
	if v.Type != bson.TypeEmbeddedDocument && v.Type != bson.TypeArray {
		return nil
	}
	es, err := bson.Raw(v.Value).Elements()
	if err != nil {
		panic(err) // the driver encoded the value
	}
	return es
}
