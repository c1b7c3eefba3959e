package mongolock_test

import (
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/lab/engines"
	"github.com/holdfast-go/holdfast/lab/faults"
	"github.com/holdfast-go/holdfast/lab/proxy"
	"github.com/holdfast-go/holdfast/lab/strange"
)

// The secrets of these tests. They have every character that is escaped anywhere.
const (
	password = `pa$$ w/rd:+&=%@"é`
	session  = `to/ken+of=aws é`
)

func mustKeepSecret(t *testing.T, what, text string) {
	t.Helper()
	strange.Hides(t, what, text, password, session)
}

// Whatever is wrong with a server or its URL, no error and no log repeats secrets of the
// URL.
func TestSecretsStaySecret(t *testing.T) {
	if !engines.MongoDB(t).Emulated {
		t.Skip("a real server may know the user")
	}
	emulator, err := url.Parse(engines.MongoDB(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	closed, http, echo := strange.Closed(t), strange.HTTP(t), strange.Echo(t)
	n := proxy.New(t)
	n.Set(proxy.CutReplies)
	user := url.UserPassword("user", password).String()
	aws := "authMechanism=MONGODB-AWS&authSource=%24external&authMechanismProperties=" + url.QueryEscape("AWS_SESSION_TOKEN:"+session)
	for name, address := range map[string]string{ // parameters are added
		"closed at once":   "mongodb://" + user + "@" + closed + "/db?w=1",
		"port closed":      "mongodb://" + user + "@127.0.0.1:1/db?w=1",
		"another protocol": "mongodb://" + user + "@" + http + "/db?w=1",
		"echo":             "mongodb://" + user + "@" + echo + "/db?authMechanism=PLAIN&authSource=%24external",
		"replies cut":      "mongodb://" + user + "@" + n.Address(emulator.Host) + "/db?w=1",
		"no passwords":     "mongodb://" + user + "@" + emulator.Host + "/db?w=1",
		"plain password":   "mongodb://" + user + "@" + emulator.Host + "/db?authMechanism=PLAIN&authSource=%24external",
		"aws":              "mongodb://" + user + "@" + emulator.Host + "/db?" + aws,
		"aws, port closed": "mongodb://" + user + "@127.0.0.1:1/db?" + aws,
		"no such host":     "mongodb://" + user + "@holdfast.invalid/db?w=1",
		"no such cluster":  "mongodb+srv://" + user + "@cluster.holdfast.invalid/db?" + aws,
		"not escaped":      "mongodb://user:" + password + "@" + emulator.Host + "/db?w=1",
		"badly escaped":    "mongodb://user:%zz" + url.PathEscape(password) + "@" + emulator.Host + "/db?w=1",
		"no path":          "mongodb://" + user + "@" + emulator.Host + "/?w=1",
		"bad port":         "mongodb://" + user + "@h:x/db?w=1",
		"bad number":       "mongodb://" + user + "@h/db?maxPoolSize=many",
		"bad mechanism":    "mongodb://" + user + "@h/db?authMechanism=NONE",
		"bad properties":   "mongodb://" + user + "@h/db?authMechanismProperties=" + url.QueryEscape(session),
		"odd properties":   "mongodb://" + user + "@h/db?authMechanism=MONGODB-AWS&authMechanismProperties=" + url.QueryEscape("TOKEN:"+session),
		"proxy password":   "mongodb://" + user + "@h/db?proxyHost=127.0.0.1&proxyPort=1&proxyPassword=" + url.QueryEscape(session),
		"key password":     "mongodb://" + user + "@h/db?tls=true&tlsCertificateKeyFile=nowhere&tlsCertificateKeyFilePassword=" + url.QueryEscape(session),
	} {
		t.Run(name, func(t *testing.T) {
			address += "&serverSelectionTimeoutMS=1000"
			err := strange.Refuses(t, address, password, session)
			if name == "no such cluster" {
				faults.MustBeUnknown(t, err) // the DNS may know the name later
			}
		})
	}
}

// together sends many simultaneous requests through one client. The first lost connection
// clears the pool, and all requests that wait for a connection fail.
func together(t *testing.T, address string) {
	t.Helper()
	s, err := driver.Open(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer closeStore(t, s)
	errs := make([]error, 8)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { errs[i] = s.(driver.Initializer).Init(t.Context()) })
	}
	all.Wait()
	for _, err := range errs {
		faults.MustBeUnknown(t, err)
	}
}

// A refused login is reported as such. It may be granted later: a server gives the same
// answer while it cannot look up the user. A connection that is lost during
// authentication does not count as refused.
func TestPasswordRefused(t *testing.T) {
	coll, fail := failing(t)
	fail(engines.MongoFailure{Command: "saslStart", Times: 1000, Code: 18})
	server, err := url.Parse(engines.MongoDB(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	n := proxy.New(t)
	address := fmt.Sprintf("mongodb://%s@%s/%s?directConnection=true&connectTimeoutMS=1000",
		url.UserPassword("user", password), n.Address(server.Host), coll.Database().Name())
	open := func() error {
		c, err := holdfast.Open(t.Context(), address, nil)
		if err == nil {
			t.Fatal("opened", c.Close())
		}
		mustKeepSecret(t, "the error", err.Error())
		return err
	}
	const refused = "refuses user or password"
	err = open()
	faults.MustBeUnknown(t, err)
	if !strings.Contains(err.Error(), refused) {
		t.Errorf("error %v", err)
	}
	// So slow that a connection is given up after hello, before it is authenticated.
	n.Set(proxy.Slow(300 * time.Millisecond))
	for range 3 {
		faults.MustBeUnknown(t, open())
	}
	// The server has not answered requests that wait for another's connection either.
	together(t, address)
	n.Set(proxy.Rarely(25))
	lost := 0
	for lost < 3 {
		err := open()
		faults.MustBeUnknown(t, err)
		if strings.Contains(err.Error(), refused) {
			if !strings.Contains(err.Error(), "a test wants it") {
				t.Errorf("the server was not asked: %v", err)
			}
			continue
		}
		if strings.Contains(err.Error(), "auth error") {
			lost++
		}
	}
}
