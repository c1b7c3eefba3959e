package env

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
)

// HeldVariable has the locks of this run and those around it, so that a run inside
// run's command does not wait for a lock that its own caller holds.
const HeldVariable = "HOLDFAST_HELD"

// IsAround reports whether the lock ID is that of a run around this process. Only
// that run releases what it locked.
func IsAround(lockID string) bool {
	return slices.Contains(strings.Fields(os.Getenv(HeldVariable)), LockIDMark(lockID))
}

// LockIDMark returns the mark of the lock ID in HeldVariable.
func LockIDMark(lockID string) string { return "i" + Hash(lockID) }

// HoldMark returns the mark of a hold in HeldVariable. place is that of its store.
func HoldMark(place string, hold *holdfast.Hold) string {
	name := base64.RawURLEncoding
	return fmt.Sprintf("h%s:%v:%d:%s:%s", Hash(place), hold.ID(), hold.Token(),
		name.EncodeToString([]byte(hold.LockID())), name.EncodeToString([]byte(hold.Resource())))
}

// Around returns the holds in that place of the runs around this process, the innermost
// last.
func Around(place string) (holds []driver.HoldRef) {
	for mark := range strings.FieldsSeq(os.Getenv(HeldVariable)) {
		if parts := strings.Split(mark, ":"); len(parts) == 5 && parts[0] == "h"+Hash(place) {
			if ref, err := refOf(parts[1:]); err == nil { // another version's marks may differ
				holds = append(holds, ref)
			}
		}
	}
	return holds
}

// refOf reads the parts of a mark that name a hold.
func refOf(parts []string) (ref driver.HoldRef, err error) {
	if ref.HoldID, err = driver.ParseHoldID(parts[0]); err != nil {
		return ref, err
	}
	if ref.Token, err = strconv.ParseUint(parts[1], 10, 64); err != nil {
		return ref, err
	}
	for i, name := range []*string{&ref.LockID, &ref.Resource} {
		text, err := base64.RawURLEncoding.DecodeString(parts[2+i])
		if err != nil {
			return ref, err
		}
		*name = string(text)
	}
	if ref.HoldID.IsZero() { // it would stand for any hold
		return ref, driver.ErrInvalid
	}
	return ref, ref.Validate()
}

// Hash returns a short hash of the text, in hex.
func Hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}

// LockIDVariable has the lock ID for run's command. Scripts keep one of their own in
// it.
const LockIDVariable = "HOLDFAST_LOCK_ID"

// Told lists the variables that run sets for its command. They describe the lock
// around the command, so a run inside does not take them as flags.
var Told = []struct{ Name, Meaning string }{
	{"HOLDFAST_RESOURCE", "the resource; empty if there are several"},
	{LockIDVariable, "the lock ID that holds it"},
	{"HOLDFAST_TOKEN", "the fencing token; receivers of writes can refuse lower ones. Empty if there are several"},
	{"HOLDFAST_TOKENS", "the tokens of all resources, as a JSON object"},
	{HeldVariable, "the locks of this run and those around it, so that none waits for itself"},
}
