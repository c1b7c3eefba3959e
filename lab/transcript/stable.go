package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/user"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A transcript shows these values instead of values that differ between machines and runs. Only
// this file replaces anything:
//
//	the home folder          ~
//	the user and the host    ada, web1: in "USER on HOST", after "user" and
//	                         "host", in the columns and fields of status; scripts
//	                         may name ann and bob as owners
//	lock IDs and hold IDs    24 hex digits, the same for the same ID
//	tokens                   16 digits, in the same order
//	times left               the whole TTL, 3s or 30s: a transcript is quick
//	times of day, and ages   12:55:53, and 1s
//	hashes of tokens         64 hex digits
const (
	stableUser = "ada"
	stableHost = "web1"
	firstToken = 1767225600000000
	firstHash  = "29b79b9b5e75579a8aab237b1b3e5e2c8b3f0a4d6c7e9f1a2b3c4d5e6f708192"
)

// machine is what a session may show of the machine and the user.
type machine struct {
	home, user, host string
}

func thisMachine(home string) (machine, error) {
	host, err := os.Hostname()
	if err != nil {
		return machine{}, err
	}
	u, err := user.Current()
	if err != nil {
		return machine{}, err
	}
	return machine{home: home, user: u.Username, host: host}, nil
}

var (
	anyID    = regexp.MustCompile(`\b[0-9a-f]{24}\b`)
	anyToken = regexp.MustCompile(`\b[0-9]{16}\b`)
	anyHash  = regexp.MustCompile(`\b[0-9a-f]{64}\b`)
	anyPID   = regexp.MustCompile(`\bpid [0-9]+\b`)
	// On a reader's terminal, the line of a wait disappears after the wait.
	waitLine = regexp.MustCompile(`(?m)^holdfast: waiting for .*\n`)
	anySince = regexp.MustCompile(`\bsince [0-9]{2}:[0-9]{2}:[0-9]{2}, for [0-9a-z]+\b`)
	anyAge   = regexp.MustCompile(`\bfor [0-9a-z.]+, [0-9a-z.]+ left(, renewed by its holder)?`)
	anyEnd   = regexp.MustCompile(`\bends in [0-9.]+s\b`)
	// The first line of a history, and the words that identify a hold in it.
	anyKept = regexp.MustCompile(`\bkept by \S+ since [-0-9]{10} [0-9:]{8}; holds of others that are shorter than [0-9.]+m?s\b`)
	anyRef  = regexp.MustCompile(`\b[0-9a-f]{8}\b`)
	fields  = regexp.MustCompile(`"(owner|host|ttlMs|safeForMs)":( ?)("[^"]*"|[0-9]+)`)
)

// stable replaces everything that differs between two runs of the same session.
func (m machine) stable(session string) string {
	session = strings.ReplaceAll(session, m.home, "~")
	session = waitLine.ReplaceAllLiteralString(session, "")
	session = replaceIDs(session)
	session = replaceTokens(session)
	session = anyHash.ReplaceAllLiteralString(session, firstHash)
	session = anyPID.ReplaceAllLiteralString(session, "pid 4711")
	session = anySince.ReplaceAllLiteralString(session, "since 12:55:53, for 1s")
	session = anyAge.ReplaceAllLiteralString(session, "for 1s, 29s left")
	session = anyEnd.ReplaceAllLiteralString(session, "ends in 30s")
	session = anyKept.ReplaceAllLiteralString(session, "kept by web1 since 2026-11-28 12:55:50; holds of others that are shorter than 1s")
	session = replaceRefs(session)
	session = m.replaceNames(session)
	return realign(session, m.cell)
}

func replaceIDs(text string) string { return replaceHex(text, anyID, 12) }

func replaceRefs(text string) string { return replaceHex(text, anyRef, 4) }

// replaceHex replaces hex digits for that many bytes, equal digits by equal ones.
func replaceHex(text string, digits *regexp.Regexp, bytes int) string {
	ids := make(map[string]string)
	return digits.ReplaceAllStringFunc(text, func(id string) string {
		if ids[id] == "" {
			sum := sha256.Sum256(fmt.Appendf(nil, "ID %d", len(ids)+1))
			ids[id] = hex.EncodeToString(sum[:bytes])
		}
		return ids[id]
	})
}

// replaceTokens replaces tokens and keeps their order.
func replaceTokens(text string) string {
	tokens := anyToken.FindAllString(text, -1)
	slices.Sort(tokens)
	tokens = slices.Compact(tokens)
	return anyToken.ReplaceAllStringFunc(text, func(token string) string {
		rank, _ := slices.BinarySearch(tokens, token)
		return strconv.Itoa(firstToken + rank*2000000)
	})
}

// replaceNames replaces user and host only where holdfast prints them: a user name may be an
// ordinary word.
func (m machine) replaceNames(text string) string {
	for from, to := range map[string]string{
		m.user + " on " + m.host:                stableUser + " on " + stableHost,
		"ann on " + m.host:                      "ann on " + stableHost,
		"bob on " + m.host:                      "bob on " + stableHost,
		"user " + m.user + " on host " + m.host: "user " + stableUser + " on host " + stableHost,
	} {
		text = regexp.MustCompile(`\b`+regexp.QuoteMeta(from)+`\b`).ReplaceAllLiteralString(text, to)
	}
	return fields.ReplaceAllStringFunc(text, func(field string) string {
		f := fields.FindStringSubmatch(field)
		value := f[3]
		switch {
		case f[1] == "owner" && value == strconv.Quote(m.user):
			value = strconv.Quote(stableUser)
		case f[1] == "host" && value == strconv.Quote(m.host):
			value = strconv.Quote(stableHost)
		case f[1] == "ttlMs":
			value = "30000"
		case f[1] == "safeForMs":
			value = "28125"
		}
		return fmt.Sprintf("%q:%s%s", f[1], f[2], value)
	})
}

// cell returns the stable value of a cell.
func (m machine) cell(column, value string) string {
	switch {
	case column == "OWNER" && value == m.user:
		return stableUser
	case column == "HOST" && value == m.host:
		return stableHost
	case column == "LEFT" && value != "-":
		return wholeTTL(value)
	case column == "BEGAN":
		return "2026-11-28 12:55:53"
	case column == "ENDED" && value != "-":
		return "2026-11-28 12:55:54"
	case column == "HELD" && value != "-":
		return "1s"
	}
	return value
}

// wholeTTL returns the TTL of a hold with that time left.
func wholeTTL(left string) string {
	if d, err := time.ParseDuration(left); err == nil && d <= 3*time.Second {
		return "3s"
	}
	return "30s"
}
