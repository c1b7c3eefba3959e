package mongokit

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/holdfast-go/holdfast/driver"
)

// The server's error codes that are understood.
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

// lasting are codes of what does not go away by asking again, and was not done.
var lasting = map[int]string{
	CodeUnauthorized:         "the user lacks a right that the store needs: readWrite on the database",
	CodeAuthenticationFailed: "the server refuses user or password",
	codeAtlas:                "the server refuses user or password",
	codeTooLarge:             tooLarge,
	codeUpdateTooLarge:       tooLarge,
	codeUpsertTooLarge:       tooLarge,
	codeUnknownStage:         "the server is too old: MongoDB 4.4 is needed",
}

const tooLarge = "the document of the resource has no room for another hold: MongoDB takes 16 MB"

// passing are codes of a server that goes, is not the primary, or could not do
// its part in time: what was asked has nothing to do with it.
var passing = []int{
	6, 7, 9001, 89, 202, // other servers cannot be reached
	91, 189, 10107, 11600, 11602, 13435, 13436, // shutdown and step-down
	50, 134, 262, // too late
	63, 133, 150, 234, 13388, // shards move
}

// Passes reports whether the error is of the connection or of the server as it is
// just now, and tells nothing about documents or what the server can do.
func Passes(err error) bool {
	var server mongo.ServerError
	return !errors.As(err, &server) || mongo.IsNetworkError(err) || mongo.IsTimeout(err) ||
		slices.ContainsFunc(server.ErrorCodes(), func(code int) bool { return slices.Contains(passing, code) })
}

// Wrap names the collection. What lasts until somebody mends it becomes
// driver.ErrUnusable; all else stays of unknown outcome.
func (c *Collection) Wrap(err error) error {
	if err == nil || errors.Is(err, driver.ErrDamaged) || errors.Is(err, driver.ErrUnusable) {
		return err
	}
	if why := why(err); why != "" {
		return c.Unusable(why, err)
	}
	if strings.HasPrefix(err.Error(), "server selection error: ") {
		err = unreached{err}
	}
	return fmt.Errorf("MongoDB collection %s: %w", c.FullName(), err)
}

// unreached is that no primary was found in time. Its text says what the driver
// knows of each server.
type unreached struct{ error }

func (u unreached) Unwrap() error { return u.error }

// aServer is what the driver writes of a server. The types behind that are in
// packages that the driver declares unstable.
var aServer = regexp.MustCompile(`\{ Addr: (\S+), Type: (\w+)(?:, Tag sets: .*?)?(?:, Average RTT: \d+)?(?:, Last error: (.*?))? \}, `)

func (u unreached) Error() string {
	var servers []string
	for _, s := range aServer.FindAllStringSubmatch(u.error.Error(), -1) {
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

// Unusable says why the collection cannot be used, and wraps err if there is one.
func (c *Collection) Unusable(why string, err error) error {
	if err == nil {
		return fmt.Errorf("%w: MongoDB collection %s: %s", driver.ErrUnusable, c.FullName(), why)
	}
	return fmt.Errorf("%w: MongoDB collection %s: %s: %w", driver.ErrUnusable, c.FullName(), why, err)
}

func why(err error) string {
	var server mongo.ServerError
	if errors.As(err, &server) {
		for _, code := range server.ErrorCodes() {
			if why := lasting[code]; why != "" {
				return why
			}
		}
		return ""
	}
	// A connection that could not be made hides the server's code in its text, and so
	// does every one that waited when the pool was cleared because of it. The name of
	// the code says that the server has answered: "auth error" alone also stands for a
	// connection that was cut while it was asked.
	if text := err.Error(); strings.Contains(text, "(AuthenticationFailed)") || strings.Contains(text, "(AtlasError)") {
		return lasting[CodeAuthenticationFailed]
	}
	return ""
}

// HasCode reports whether the server answered with the code.
func HasCode(err error, code int) bool {
	var server mongo.ServerError
	return errors.As(err, &server) && server.HasErrorCode(code)
}
