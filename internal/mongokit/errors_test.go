package mongokit

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/holdfast-go/holdfast/driver"
)

// Errors that certainly do not pass by themselves are ErrUnusable, and say what to do.
// All others mean that the outcome is unknown. Atlas has one code for both kinds of
// causes, and so has a refused login.
func TestWrap(t *testing.T) {
	client, err := mongo.Connect(options.Client().ApplyURI("mongodb://127.0.0.1:1"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Disconnect(t.Context()) }()
	c := &Collection{coll: client.Database("db").Collection("locks")}
	answer := func(code int32, name, message string) error {
		return mongo.CommandError{Code: code, Name: name, Message: message}
	}
	// The driver returns this error for a connection that could not be authenticated.
	login := func(code, message string) error {
		return fmt.Errorf("connection() error occurred during connection handshake: auth error: sasl conversation error: "+
			"unable to authenticate using mechanism \"SCRAM-SHA-256\": (%s) %s", code, message)
	}
	for name, c2 := range map[string]struct {
		err      error
		unusable bool
		says     string
	}{
		"right":                 {answer(13, "Unauthorized", "not authorized on db to execute command"), true, "readWrite"},
		"right, Atlas":          {answer(8000, "AtlasError", "user is not allowed to do action [update] on [db.locks]"), true, "readWrite"},
		"space, Atlas":          {answer(8000, "AtlasError", "you are over your space quota, using 512 MB of 512 MB"), false, "quota"},
		"connections, Atlas":    {answer(8000, "AtlasError", "connection limit reached"), false, "limit"},
		"login, Atlas":          {login("AtlasError", "bad auth : authentication failed"), false, "refuses user or password"},
		"login quota, Atlas":    {login("AtlasError", "you are over your space quota"), false, "quota"},
		"login":                 {login("AuthenticationFailed", "Authentication failed."), false, "refuses user or password"},
		"login, as an answer":   {answer(18, "AuthenticationFailed", "Authentication failed."), false, "refuses user or password"},
		"login, cut":            {errors.New("auth error: unable to authenticate: socket was unexpectedly closed: EOF"), false, "EOF"},
		"document":              {answer(17419, "", "Resulting document after update is larger than 16777216"), true, "16 MB"},
		"old server":            {answer(40324, "", "Unrecognized pipeline stage name: '$set'"), true, "too old"},
		"shutdown":              {answer(91, "ShutdownInProgress", "The server is in quiesce mode"), false, "quiesce"},
		"not the primary":       {answer(10107, "NotWritablePrimary", "not primary"), false, "not primary"},
		"no space on the disk":  {answer(14031, "OutOfDiskSpace", "available disk space is less than required"), false, "disk"},
		"too many requests":     {answer(16500, "", "RequestRateTooLarge"), false, "RequestRateTooLarge"},
		"config servers silent": {answer(133, "FailedToSatisfyReadPreference", "Could not find host"), false, "host"},
	} {
		err := c.Wrap(c2.err)
		if errors.Is(err, driver.ErrUnusable) != c2.unusable || !strings.Contains(err.Error(), c2.says) || !strings.Contains(err.Error(), "db.locks") {
			t.Errorf("%s: %v; want unusable: %v, and %q", name, err, c2.unusable, c2.says)
		}
	}
}
