package mongokit

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/holdfast-go/holdfast/driver"
)

// The error codes of the server that are treated specially.
const (
	CodeUnauthorized          = 13
	CodeAuthenticationFailed  = 18
	CodeNamespaceNotFound     = 26
	CodeIndexOptionsConflict  = 85
	CodeIndexKeySpecsConflict = 86
	CodeWriteConflict         = 112
	codeAtlas                 = 8000
	codeTooLarge              = 10334
	codeUpdateTooLarge        = 17419
	codeUpsertTooLarge        = 17420
	codeUnknownStage          = 40324
)

// permanent lists answers that a retry cannot fix. The server did nothing.
//
//	code                 can also mean                                    certain with
//	13                   -                                                the code
//	8000                 whatever Atlas has no other code for: quota,     the text about an action
//	                     too many connections, a user that it has yet
//	                     to make on its servers
//	10334, 17419, 17420  -                                                the code
//	40324                -                                                the code
//
// 18 is not listed: a server returns it for each failed login, even if it cannot look up
// the user because config servers or LDAP do not answer.
var permanent = []struct {
	code      int
	text, why string
}{
	{CodeUnauthorized, "", lacksRight},
	{codeAtlas, "user is not allowed to do action", lacksRight},
	{codeTooLarge, "", tooLarge},
	{codeUpdateTooLarge, "", tooLarge},
	{codeUpsertTooLarge, "", tooLarge},
	{codeUnknownStage, "", "the server is too old: MongoDB 4.4 is needed"},
}

const lacksRight = "the user lacks a right that the store needs: readWrite on the database"

const tooLarge = "the document of the resource has no room for another hold: MongoDB takes 16 MB"

// transient lists the codes of a server that shuts down, is not the primary, or was too
// slow. They say nothing about the request.
var transient = []int{
	6, 7, 9001, 89, 202, // other servers cannot be reached
	91, 189, 10107, 11600, 11602, 13435, 13436, // shutdown and step-down
	50, 134, 262, // too late
	63, 133, 150, 234, 13388, // shards move
}

// Transient reports whether the error is about the connection or about the present state
// of the server, so that it says nothing about documents or the server's features.
func Transient(err error) bool {
	var server mongo.ServerError
	return !errors.As(err, &server) || mongo.IsNetworkError(err) || mongo.IsTimeout(err) ||
		slices.ContainsFunc(server.ErrorCodes(), func(code int) bool { return slices.Contains(transient, code) })
}

// Wrap adds the name of the collection to an error. An error that lasts until somebody
// fixes its cause becomes driver.ErrUnusable. Any other error means that the outcome is
// unknown.
func (c *Collection) Wrap(err error) error {
	if err == nil || errors.Is(err, driver.ErrDamaged) || errors.Is(err, driver.ErrUnusable) {
		return err
	}
	if why := permanentReason(err); why != "" {
		return c.Unusable(why, err)
	}
	switch text := err.Error(); {
	case strings.HasPrefix(text, "server selection error: "):
		err = noPrimary{err}
	case RefusesLogin(err):
		return fmt.Errorf("MongoDB collection %s: the server refuses user or password, or cannot look them up for now: %w", c.FullName(), err)
	}
	return fmt.Errorf("MongoDB collection %s: %w", c.FullName(), err)
}

// noPrimary means that no primary was found in time. Its text has the state of each
// server.
type noPrimary struct{ error }

func (u noPrimary) Unwrap() error { return u.error }

// serverState matches what the driver's error says about a server. Its types are in
// packages that the driver declares unstable.
var serverState = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\{ Addr: (\S+), Type: (\w+)(?:, Tag sets: .*?)?(?:, Average RTT: \d+)?(?:, Last error: (.*?))? \}, `)
})

func (u noPrimary) Error() string {
	var servers []string
	for _, s := range serverState().FindAllStringSubmatch(u.error.Error(), -1) {
		switch addr, kind, lastError := s[1], s[2], s[3]; {
		case lastError != "":
			servers = append(servers, addr+": "+lastError)
		case kind == "Unknown":
			servers = append(servers, addr+": no answer yet")
		default:
			servers = append(servers, addr+" is "+kind)
		}
	}
	if len(servers) == 0 {
		return "no primary can be reached: " + u.error.Error()
	}
	return "no primary can be reached: " + strings.Join(servers, "; ")
}

// Unusable returns a driver.ErrUnusable with the reason, which wraps err if that is not
// nil.
func (c *Collection) Unusable(why string, err error) error {
	if err == nil {
		return fmt.Errorf("%w: MongoDB collection %s: %s", driver.ErrUnusable, c.FullName(), why)
	}
	return fmt.Errorf("%w: MongoDB collection %s: %s: %w", driver.ErrUnusable, c.FullName(), why, err)
}

// TooLarge reports whether the document has no room for the change.
func TooLarge(err error) bool {
	return HasCode(err, codeTooLarge) || HasCode(err, codeUpdateTooLarge) || HasCode(err, codeUpsertTooLarge)
}

func permanentReason(err error) string {
	var server mongo.ServerError
	if !errors.As(err, &server) {
		return ""
	}
	for _, p := range permanent {
		if server.HasErrorCode(p.code) && server.HasErrorMessage(p.text) {
			return p.why
		}
	}
	return ""
}

// RefusesLogin reports whether the server did not accept the user, so that no connection
// was made. Then only the text of the error has the server's code, and the same holds for
// calls that waited when the pool was cleared because of it. The name of the code proves
// that the server has answered: "auth error" also stands for a connection that was cut
// during authentication.
func RefusesLogin(err error) bool {
	text := err.Error()
	return HasCode(err, CodeAuthenticationFailed) || strings.Contains(text, "(AuthenticationFailed)") || strings.Contains(text, "bad auth")
}

// HasCode reports whether the server answered with the code.
func HasCode(err error, code int) bool {
	var server mongo.ServerError
	return errors.As(err, &server) && server.HasErrorCode(code)
}
