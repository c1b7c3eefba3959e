package mongolock

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/mongokit"
	"github.com/holdfast-go/holdfast/internal/quote"
	"github.com/holdfast-go/holdfast/internal/storeurl"
)

// defaultCollection is the collection if the URL names none.
const defaultCollection = "locks"

// serverSelection is how long an operation waits for a primary, unless the URL sets it:
// about as long as an election takes. The driver's default is 30 s.
const serverSelection = 10 * time.Second

func init() {
	for _, scheme := range []string{"mongodb", "mongodb+srv"} {
		driver.Register(scheme, open)
	}
}

func open(ctx context.Context, u *url.URL) (driver.Store, error) {
	t, err := parseURL(u)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	opts := options.Client().ApplyURI(t.uri) // asks the DNS for mongodb+srv
	if err := opts.Validate(); err != nil {
		return nil, t.refused(err)
	}
	if opts.ServerSelectionTimeout == nil {
		opts.SetServerSelectionTimeout(serverSelection)
	}
	if opts.AppName == nil {
		opts.SetAppName("holdfast")
	}
	client, err := mongo.Connect(opts)
	if err != nil {
		return nil, t.refused(err)
	}
	coll := client.Database(t.database).Collection(t.collection)
	if t.layout.Open != nil {
		return t.layout.Open(coll, t.timeout), nil
	}
	s := New(coll, nil)
	s.coll.Own()
	return s, nil
}

// target is a parsed URL.
type target struct {
	uri                  string // for the driver
	database, collection string
	layout               mongokit.Layout // zero: the layout of this package
	timeout              time.Duration   // of the layout; 0: its default
	source               *url.URL        // the URL, whose secrets no error may repeat
}

// refused returns the error for a URL that the driver does not accept. A failure of the
// DNS may be temporary, so it is not driver.ErrInvalid.
func (t target) refused(err error) error {
	text := storeurl.Hide(err.Error(), t.source)
	var dns *net.DNSError
	if errors.As(err, &dns) {
		return fmt.Errorf("mongodb URL: %s", text)
	}
	return fmt.Errorf("%w: mongodb URL: %s", driver.ErrInvalid, text)
}

// parseURL takes the collection out of the URL and leaves all else to the driver.
func parseURL(u *url.URL) (t target, err error) {
	fail := func(format string, args ...any) (target, error) {
		return target{}, fmt.Errorf("%w: mongodb URL: %s", driver.ErrInvalid, fmt.Sprintf(format, args...))
	}
	t.database = strings.TrimPrefix(u.Path, "/")
	values, err := storeurl.Parameters(u)
	switch {
	case err != nil:
		return fail("%v", err)
	case u.Host == "":
		return fail("it names no server: write mongodb://HOST/DATABASE?collection=NAME")
	case t.database == "":
		return fail("it names no database: write mongodb://HOST/DATABASE?collection=NAME")
	}
	t.collection = defaultCollection
	if named, ok := values["collection"]; ok {
		if len(named) != 1 || named[0] == "" {
			return fail("parameter \"collection\" must name one collection")
		}
		t.collection = named[0]
	}
	t.source = u
	ours := []string{"collection"}
	if values.Has("layout") {
		var known bool
		if t.layout, known = mongokit.Layouts[values.Get("layout")]; !known || len(values["layout"]) != 1 {
			return fail("parameter \"layout\" must name one of the layouts that are linked in: %q (import mongolock/compat/mongodoc)",
				slices.Sorted(maps.Keys(mongokit.Layouts)))
		}
		ours = append(ours, "layout")
	}
	if t.layout.Timeout && values.Has("timeout") {
		if t.timeout, err = time.ParseDuration(values.Get("timeout")); err != nil || t.timeout <= 0 {
			return fail("parameter \"timeout\" is not a duration such as 30s")
		}
		ours = append(ours, "timeout")
	}
	t.uri = storeurl.Without(u, ours...)
	for name := range values {
		if !slices.Contains(ours, name) && !slices.Contains(driverOptions, strings.ToLower(name)) {
			return fail("unknown parameter %s", quote.Short(name))
		}
	}
	return t, nil
}

// driverOptions are the driver's URL options. The driver itself ignores misspelled ones.
var driverOptions = strings.Fields(`
	appname authmechanism authmechanismproperties authsource
	compressors connect connecttimeoutms directconnection enableoverloadretargeting
	heartbeatfrequencyms heartbeatintervalms journal loadbalanced localthresholdms
	maxadaptiveretries maxconnecting maxidletimems maxpoolsize maxstaleness maxstalenessseconds minpoolsize
	readconcernlevel readpreference readpreferencetags replicaset retryreads retrywrites
	servermonitoringmode serverselectiontimeoutms sockettimeoutms srvmaxhosts srvservicename
	ssl sslcertificateauthorityfile sslclientcertificatekeyfile sslclientcertificatekeypassword sslinsecure
	timeoutms tls tlscafile tlscertificatefile tlscertificatekeyfile tlscertificatekeyfilepassword
	tlsdisablecertificaterevocationcheck tlsdisableocspendpointcheck tlsinsecure tlsprivatekeyfile
	w zlibcompressionlevel zstdcompressionlevel`)
