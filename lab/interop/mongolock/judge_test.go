package mongolock

import (
	"strings"
	"sync"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/holdfast-go/holdfast/lab/interop/referee"
)

// judge is a referee that also checks documents.
type judge struct {
	*referee.Referee

	mu    sync.Mutex
	fence int64 // the last fence value seen
}

func newJudge() *judge { return &judge{Referee: referee.New(0)} }

// document checks a stored document: the count of shared locks is right, no lock ID is there
// twice, no lock is both exclusive and shared, and tokens never fall. It reports whether there
// is a lock.
func (j *judge) document(raw bson.Raw) (locked bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	locks, err := raw.Lookup("shared", "locks").Array().Values()
	if err != nil {
		j.Fault("shared.locks: %v", err)
		return false
	}
	if count, ok := raw.Lookup("shared", "count").AsInt64OK(); !ok || int(count) != len(locks) {
		j.Fault("shared.count is %v, and there are %d", raw.Lookup("shared", "count"), len(locks))
	}
	acquired, ok := raw.Lookup("exclusive", "acquired").BooleanOK()
	if !ok || acquired && len(locks) > 0 {
		j.Fault("it is exclusive and shared: %v", raw)
	}
	ids := make(map[string]bool)
	for _, l := range locks {
		id := l.Document().Lookup("lockId").StringValue()
		if ids[id] {
			j.Fault("%s has it twice: %v", id, raw)
		}
		ids[id] = true
	}
	if fence, ok := raw.Lookup("fence").AsInt64OK(); ok {
		if fence < j.fence {
			j.Fault("the token was %d and is %d", j.fence, fence)
		}
		j.fence = fence
	}
	return acquired || len(locks) > 0
}

// The judge detects faults. Otherwise its silence would mean nothing.
func TestJudge(t *testing.T) {
	for name, c := range map[string]struct {
		look  func(*judge)
		fault string
	}{
		"good":               {func(j *judge) { j.document(stored(2, false, 7, "a", "b")); j.document(stored(0, true, 7)) }, ""},
		"count too high":     {func(j *judge) { j.document(stored(3, false, 0, "a", "b")) }, "and there are 2"},
		"count too low":      {func(j *judge) { j.document(stored(0, false, 0, "a")) }, "and there are 1"},
		"both":               {func(j *judge) { j.document(stored(1, true, 0, "a")) }, "exclusive and shared"},
		"twice":              {func(j *judge) { j.document(stored(2, false, 0, "a", "a")) }, "a has it twice"},
		"a token that falls": {func(j *judge) { j.document(stored(0, false, 7)); j.document(stored(0, false, 6)) }, "was 7 and is 6"},
	} {
		t.Run(name, func(t *testing.T) {
			j := newJudge()
			c.look(j)
			all := strings.Join(j.Faults(), "\n")
			if (c.fault == "") != (all == "") || !strings.Contains(all, c.fault) {
				t.Errorf("faults %q, want %q", all, c.fault)
			}
		})
	}
}

func stored(count int, acquired bool, fence int64, ids ...string) bson.Raw {
	locks := bson.A{}
	for _, id := range ids {
		locks = append(locks, bson.M{"lockId": id})
	}
	raw, err := bson.Marshal(bson.M{
		"exclusive": bson.M{"acquired": acquired}, "shared": bson.M{"count": count, "locks": locks}, "fence": fence,
	})
	if err != nil {
		panic(err)
	}
	return raw
}
