package access

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"net/http"
	"strings"
)

// A token is tokenPrefix, by which scanners for secrets recognize it, and 256 random bits
// with a checksum of 32, in base32 without capitals: a double click selects all of it.
// Only such tokens are accepted. So none is a password that can be guessed from its hash.
const (
	tokenPrefix = "hf_"
	tokenBytes  = 32
)

var tokenEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// maxCallerName is how many bytes the name of a caller has at most.
const maxCallerName = 64

// letters are those of the names of callers, and of hosts.
const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

// ValidName returns an error unless the name is one of a caller: 1 to 64 of A-Z a-z 0-9 . _ -.
func ValidName(name string) error {
	if name == "" || len(name) > maxCallerName || strings.Trim(name, letters) != "" {
		return fmt.Errorf("the name of a caller has 1 to %d of A-Z a-z 0-9 . _ -, unlike %.100q", maxCallerName, name)
	}
	return nil
}

// NewToken makes a token, and the entry of the auth file that gives it to a caller of that
// name: one line of JSON, in which the caller may do nothing yet. The token is in nothing
// but the result.
func NewToken(name string) (token, entry string, err error) {
	if err := ValidName(name); err != nil {
		return "", "", err
	}
	var secret [tokenBytes]byte
	_, _ = rand.Read(secret[:]) // never fails
	token = encodeToken(secret)
	sum := hashToken(token)
	text, err := json.Marshal(callerEntry{Name: name, TokenSHA256: []string{hex.EncodeToString(sum[:])}, Rules: []ruleEntry{}})
	return token, string(text), err
}

func encodeToken(secret [tokenBytes]byte) string {
	all := binary.BigEndian.AppendUint32(secret[:], crc32.ChecksumIEEE(secret[:]))
	return tokenPrefix + tokenEncoding.EncodeToString(all)
}

// hashToken returns the hash of the token as it is written, so that sha256sum finds it too.
func hashToken(token string) [sha256.Size]byte { return sha256.Sum256([]byte(token)) }

var errToken = fmt.Errorf("%w: it is no token that `holdfast token` has made, or one that is cut off or misspelt", ErrAnonymous)

// checkToken finds tokens that are incomplete or misspelt, which the answer may say.
func checkToken(token string) error {
	text, ok := strings.CutPrefix(token, tokenPrefix)
	all, err := tokenEncoding.DecodeString(text)
	if !ok || err != nil || len(all) != tokenBytes+crc32.Size {
		return errToken
	}
	if encodeToken([tokenBytes]byte(all)) != token {
		return errToken
	}
	return nil
}

// bearer returns the token of a request, or "" if it has no header Authorization.
func bearer(h http.Header) (string, error) {
	values := h["Authorization"]
	switch len(values) {
	case 0:
		return "", nil
	case 1:
	default:
		return "", fmt.Errorf("%w: the request has %d headers Authorization", ErrAnonymous, len(values))
	}
	scheme, token, ok := strings.Cut(values[0], " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return "", fmt.Errorf("%w: the header Authorization is not of the form \"Bearer TOKEN\"", ErrAnonymous)
	}
	if err := checkToken(token); err != nil {
		return "", err
	}
	return token, nil
}
