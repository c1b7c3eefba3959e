package lock

import (
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/holdfast-go/holdfast/driver"
)

// The types of locks in LockStatus.Type.
const (
	LOCK_TYPE_EXCLUSIVE = "exclusive"
	LOCK_TYPE_SHARED    = "shared"
)

// The errors that programs compare with. They are returned unwrapped. Any other error
// means that the outcome is unknown, unless it wraps one of the errors of package driver,
// such as ErrInvalid, ErrUnusable or ErrDamaged.
var (
	// ErrAlreadyLocked means that a lock is in the way, perhaps the caller's own.
	ErrAlreadyLocked = errors.New("unable to acquire lock (resource is already locked)")
	// ErrLockNotFound means that there is no lock to renew, or it has less than a second
	// left.
	ErrLockNotFound = errors.New("unable to find lock")
)

// mongo-lock exports these options and passes them to the driver. Here they have no
// effect.
var (
	UPSERT    = true
	ReturnDoc = options.After
)

// LockDetails are shown by Status. Only the TTL has another effect.
type LockDetails struct { //nolint:revive // the name is that of mongo-lock
	Owner   string // the owner
	Host    string // the owner's host
	Comment string // the purpose
	TTL     uint   // how long the lock lives unless it is renewed, in seconds; 0: until it is unlocked
}

// LockStatus is a lock as it was when the server was asked.
type LockStatus struct { //nolint:revive // the name is that of mongo-lock
	Resource string
	LockId   string
	// Type is LOCK_TYPE_EXCLUSIVE or LOCK_TYPE_SHARED.
	Type    string
	Owner   string
	Host    string
	Comment string
	// CreatedAt and RenewedAt are times of the server's clock, for locks of mongo-lock of
	// the client's. RenewedAt is nil if the lock was never renewed.
	CreatedAt time.Time
	RenewedAt *time.Time
	// TTL is the time left in seconds, rounded down: 0 when it has passed,
	// negative for a lock without a TTL.
	TTL int64

	holdID driver.HoldID // orders locks of the same millisecond, see newHoldID
}

// Format implements fmt.Formatter. It prints the lock without its hold ID.
func (ls LockStatus) Format(f fmt.State, verb rune) {
	type shown LockStatus // without methods
	ls.holdID = driver.HoldID{}
	fmt.Fprintf(f, fmt.FormatString(f, verb), shown(ls))
}

func statusOf(s driver.Status) LockStatus {
	ls := LockStatus{
		Resource: s.Resource, LockId: s.LockID, Type: s.Mode.String(),
		Owner: s.Owner, Host: s.Host, Comment: s.Comment,
		CreatedAt: s.Created, TTL: -1, holdID: s.HoldID,
	}
	if !s.Renewed.IsZero() {
		ls.RenewedAt = &s.Renewed
	}
	if s.Left != driver.Forever {
		ls.TTL = int64(s.Left / time.Second)
	}
	return ls
}

// LockStatusesByCreatedAtDesc sorts locks, the newest first.
type LockStatusesByCreatedAtDesc []LockStatus //nolint:revive // the name is that of mongo-lock

// Len implements sort.Interface.
func (ls LockStatusesByCreatedAtDesc) Len() int { return len(ls) }

// Less implements sort.Interface. It orders locks of the same millisecond only if one
// process took them by this package.
func (ls LockStatusesByCreatedAtDesc) Less(i, j int) bool {
	if c := ls[i].CreatedAt.Compare(ls[j].CreatedAt); c != 0 {
		return c > 0
	}
	return string(ls[i].holdID[:]) > string(ls[j].holdID[:])
}

// Swap implements sort.Interface.
func (ls LockStatusesByCreatedAtDesc) Swap(i, j int) { ls[i], ls[j] = ls[j], ls[i] }

// Filter chooses locks. Fields that are zero are ignored. A lock must match all others.
type Filter struct {
	CreatedBefore time.Time
	CreatedAfter  time.Time
	TTLlt         uint // TTL below, in seconds; no locks without a TTL
	TTLgte        uint // TTL at least, in seconds; no locks without a TTL
	Resource      string
	LockId        string
	Owner         string
}

// matchTTL reports whether the filter chooses a lock by its TTL.
func (f Filter) matchTTL(ttl int64) bool {
	if f.TTLlt == 0 && f.TTLgte == 0 {
		return true
	}
	return ttl >= 0 && (f.TTLlt == 0 || uint64(ttl) < uint64(f.TTLlt)) && uint64(ttl) >= uint64(f.TTLgte)
}
