package access

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/server/internal/strictjson"
)

// DefaultMaxTTL is the longest TTL that a rule gives which says nothing of it.
const DefaultMaxTTL = 24 * time.Hour

// The auth file as it is written. Package strictjson reads it as strictly as a request.
type (
	fileEntry struct {
		Callers    []callerEntry `json:"callers"`
		SessionKey string        `json:"sessionKey,omitempty"`
	}
	callerEntry struct {
		Name             string      `json:"name"`
		TokenSHA256      []string    `json:"tokenSha256,omitempty"`
		CertificateNames []string    `json:"certificateNames,omitempty"`
		Rules            []ruleEntry `json:"rules"`
	}
	ruleEntry struct {
		Resources string   `json:"resources"`
		May       []string `json:"may"`
		MaxTTL    string   `json:"maxTtl,omitempty"`
	}
)

// policy is what an auth file says. It does not change.
type policy struct {
	callers map[string]*member
	known   map[credential]*member
	tokens  []tokenOwner // all of them, to look for one in constant time
	// sessionKey is that of the cookies of browsers, nil if the file has none.
	sessionKey []byte
}

type tokenOwner struct {
	sum [sha256.Size]byte
	*member
}

// member is a caller of the file.
type member struct {
	entry   callerEntry
	rules   []rule
	changed chan struct{} // closed when another policy says something else of it, or nothing
}

type rule struct {
	pattern
	may    [Force + 1]bool
	maxTTL time.Duration
}

var verbs = map[string]Verb{"lock": Lock, "look": Look, "force": Force}

// parsePolicy reads an auth file.
func parsePolicy(text []byte) (*policy, error) {
	var file fileEntry
	if err := strictjson.Decode(text, &file); err != nil {
		return nil, err
	}
	if file.Callers == nil {
		return nil, errors.New(`it has no member "callers"`)
	}
	p := &policy{callers: map[string]*member{}, known: map[credential]*member{}}
	if file.SessionKey != "" {
		key, err := base64.StdEncoding.DecodeString(file.SessionKey)
		if err != nil || len(key) < sessionKeyBytes {
			return nil, fmt.Errorf("sessionKey is not the base64 of %d random bytes or more", sessionKeyBytes)
		}
		p.sessionKey = key
	}
	for i, entry := range file.Callers {
		if err := p.add(entry); err != nil {
			return nil, fmt.Errorf("caller %d, %.100q: %w", i+1, entry.Name, err)
		}
	}
	return p, nil
}

func (p *policy) add(entry callerEntry) error {
	if err := ValidName(entry.Name); err != nil {
		return err
	}
	switch {
	case p.callers[entry.Name] != nil:
		return errors.New("another caller has the same name")
	case len(entry.TokenSHA256)+len(entry.CertificateNames) == 0:
		return errors.New("it needs tokenSha256 or certificateNames to be known by")
	}
	m := &member{entry: entry, changed: make(chan struct{})}
	p.callers[entry.Name] = m
	for _, text := range entry.TokenSHA256 {
		if err := p.addToken(m, text); err != nil {
			return err
		}
	}
	for _, name := range entry.CertificateNames {
		if err := checkCertificateName(name); err != nil {
			return err
		}
		if p.known[credential{certificate: name}] != nil {
			return fmt.Errorf("certificateNames has %q, which is in the file twice", name)
		}
		p.known[credential{certificate: name}] = m
	}
	for _, written := range entry.Rules {
		r, err := parseRule(written)
		if err != nil {
			return err
		}
		m.rules = append(m.rules, r)
	}
	return nil
}

// addToken says nothing of the text: it may be the token itself, put there by mistake.
func (p *policy) addToken(m *member, text string) error {
	sum, err := hex.DecodeString(text)
	if err != nil || len(sum) != sha256.Size {
		return errors.New("tokenSha256 is an array of hashes of 64 hex digits, and one of it is none")
	}
	by := credential{token: [sha256.Size]byte(sum)}
	if p.known[by] != nil {
		return errors.New("tokenSha256 has a hash that is in the file twice")
	}
	p.known[by] = m
	p.tokens = append(p.tokens, tokenOwner{by.token, m})
	return nil
}

// checkCertificateName refuses what no certificate's name is equal to once it is read: a URI
// is written again by package url.
func checkCertificateName(name string) error {
	if strings.Contains(name, ":") {
		if u, err := url.Parse(name); err != nil || u.String() != name || u.Host == "" && u.Opaque == "" {
			return fmt.Errorf("certificateNames has %.300q, which is no URI as certificates have it", name)
		}
		return nil
	}
	if name == "" || strings.Trim(name, letters) != "" {
		return fmt.Errorf("certificateNames has %.300q, which is neither a URI nor the name of a host", name)
	}
	return nil
}

func parseRule(entry ruleEntry) (r rule, err error) {
	if r.pattern, err = parsePattern(entry.Resources); err != nil {
		return r, err
	}
	if len(entry.May) == 0 {
		return r, fmt.Errorf("the rule for %q gives no right: may is an array of lock, look and force", entry.Resources)
	}
	for _, word := range entry.May {
		verb, known := verbs[word]
		if !known || r.may[verb] {
			return r, fmt.Errorf("the rule for %q: may has %.100q, but each of lock, look and force once at most", entry.Resources, word)
		}
		r.may[verb] = true
	}
	switch {
	case entry.MaxTTL == "":
		r.maxTTL = DefaultMaxTTL
	case !r.may[Lock]:
		return r, fmt.Errorf("the rule for %q has a maxTtl, but not the right to lock", entry.Resources)
	case entry.MaxTTL == "forever":
		r.maxTTL = driver.Forever
	default:
		r.maxTTL, err = time.ParseDuration(entry.MaxTTL)
		if err != nil || r.maxTTL < time.Millisecond || r.maxTTL > driver.MaxTTL {
			return r, fmt.Errorf(`the rule for %q: maxTtl is %.100q, but must be "forever" or a duration such as "90s" or "24h", of 100 years at most`, entry.Resources, entry.MaxTTL)
		}
	}
	return r, nil
}

// byToken returns the caller with the token, or nil. It takes the same time for each token,
// whether it is in the file and wherever: some 50 ns for each token of the file.
func (p *policy) byToken(sum [sha256.Size]byte) *member {
	found := -1
	for i := range p.tokens {
		found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(p.tokens[i].sum[:], sum[:]), i, found)
	}
	if found < 0 {
		return nil
	}
	return p.tokens[found].member
}

// shown returns the caller that has the token, and the hash of that. The error wraps ErrAnonymous.
func (p *policy) shown(token string) (*member, [sha256.Size]byte, error) {
	sum := hashToken(token)
	m := p.byToken(sum)
	if m == nil {
		return nil, sum, fmt.Errorf("%w: the token is not known", ErrAnonymous)
	}
	return m, sum, nil
}

// succeed takes over the callers of the policy before that are the same, and returns the
// others of that one.
func (p *policy) succeed(before *policy) (changed []*member) {
	for name, m := range before.callers {
		if now := p.callers[name]; now != nil && reflect.DeepEqual(now.entry, m.entry) {
			now.changed = m.changed
			continue
		}
		changed = append(changed, m)
	}
	return changed
}

func (m *member) may(v Verb, resource string) bool {
	return slices.ContainsFunc(m.rules, func(r rule) bool { return r.may[v] && r.matches(resource) })
}

func (m *member) mayAll(v Verb) bool {
	return slices.ContainsFunc(m.rules, func(r rule) bool { return r.may[v] && r.matchesAll() })
}

// maxTTL is the longest of all rules that give the right to lock.
func (m *member) maxTTL(resource string) (longest time.Duration) {
	for _, r := range m.rules {
		if r.may[Lock] && r.matches(resource) {
			longest = max(longest, r.maxTTL)
		}
	}
	return longest
}

// credential is what a caller is known by: the hash of its token, or a name in its
// certificate.
type credential struct {
	token       [sha256.Size]byte
	certificate string
}
