package mongolock_test

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/holdfast-go/holdfast/lab/engines"
	"github.com/holdfast-go/holdfast/lab/faults"
	"github.com/holdfast-go/holdfast/mongolock"
	"github.com/holdfast-go/holdfast/mongolock/integration/sent"
)

// Whatever the settings of the collection are, writes reach the majority's journals
// before they are answered, and only the primary is read.
func TestWriteConcernAndReadPreference(t *testing.T) {
	var commands sent.Commands
	journal := false
	careless := options.Client().SetMonitor(commands.Monitor()).
		SetReadPreference(readpref.SecondaryPreferred()).SetReadConcern(readconcern.Linearizable()).
		SetWriteConcern(&writeconcern.WriteConcern{W: 1, Journal: &journal})
	near := newCollection(t)
	leaveIdle(t, near, "idle")
	coll := engines.MongoThrough(t, near, careless)
	s := mongolock.New(coll.Clone(options.Collection().SetWriteConcern(writeconcern.Unacknowledged())), nil)
	defer closeStore(t, s)
	all := commands.By(func() {
		if err := s.Init(t.Context()); err != nil {
			t.Fatal(err)
		}
		for name, prepare := range faults.Operations {
			p := prepare(t, s, name)
			if err := p.Do(t.Context(), s); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			p.Check()
		}
	})

	count := make(map[string]int)
	for _, command := range all {
		name := sent.Name(command)
		count[name]++
		concern, _ := command.Lookup("writeConcern").DocumentOK()
		switch name {
		case "findAndModify", "update", "delete", "createIndexes":
			w, _ := concern.Lookup("w").StringValueOK()
			j, _ := concern.Lookup("j").BooleanOK()
			if w != "majority" || !j {
				t.Errorf("%s has write concern %v", name, concern)
			}
		case "find", "aggregate", "getMore", "listIndexes":
			level, _ := command.Lookup("readConcern", "level").StringValueOK()
			if level != "" && level != "local" && (name != "aggregate" || level != "majority") {
				t.Errorf("%s has read concern %q", name, level)
			}
		case "killCursors":
		default:
			t.Errorf("an unexpected command: %v", command)
		}
		// With a direct connection the driver allows reads from a secondary, which could
		// not do any of the writes.
		switch mode, _ := command.Lookup("$readPreference", "mode").StringValueOK(); mode {
		case "", "primary", "primaryPreferred":
		default:
			t.Errorf("%s has read preference %q", name, mode)
		}
	}
	for _, name := range []string{"findAndModify", "update", "delete", "createIndexes", "find", "aggregate"} {
		if count[name] == 0 {
			t.Errorf("no %s was sent: %v", name, count)
		}
	}
}
