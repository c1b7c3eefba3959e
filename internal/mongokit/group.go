package mongokit

import (
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/holdfast-go/holdfast/driver"
)

// groups are requests in groups. One write performs all requests of a group, which are
// for one resource, each with another lock ID.
type groups[Q any] struct {
	each [][]Q
	of   []int // the group of each request
}

// grouped puts requests into groups of at most most requests. Two requests for the same
// lock ID are never in one group. resources names each resource once.
func grouped[Q any](qs []Q, ref func(Q) driver.HoldRef, most int) (g groups[Q], resources []string) {
	type hold struct{ resource, lockID string }
	open := make(map[string]int, len(qs)) // the last group of a resource
	in := make(map[hold]int, len(qs))     // the last group that has the lock ID
	for _, q := range qs {
		h := hold{ref(q).Resource, ref(q).LockID}
		at, is := open[h.resource]
		if last, twice := in[h]; !is || twice && last == at || len(g.each[at]) == most {
			at = len(g.each)
			g.each = append(g.each, nil)
			open[h.resource] = at
		}
		if !is {
			resources = append(resources, h.resource)
		}
		in[h] = at
		g.each[at], g.of = append(g.each[at], q), append(g.of, at)
	}
	return g, resources
}

// writes returns the write of each group.
func (g groups[Q]) writes(of func([]Q) mongo.WriteModel) []mongo.WriteModel {
	writes := make([]mongo.WriteModel, len(g.each))
	for i, qs := range g.each {
		writes[i] = of(qs)
	}
	return writes
}

// allChanged reports whether this number of changed documents means that every request
// was done. A group of several requests changes one document, which does not say for
// which of them.
func (g groups[Q]) allChanged(changed int) bool { return changed == len(g.of) }
