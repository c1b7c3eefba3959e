package mongokit

import (
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/mongo"
)

func bulkError(index, code int) mongo.BulkWriteError {
	return mongo.BulkWriteError{WriteError: mongo.WriteError{Index: index, Code: code}}
}

// A failed write stays failed while other writes, which had a conflict, are sent again.
func TestUndecided(t *testing.T) {
	failed := make(map[int]error)
	open := undecided([]int{0, 1, 2, 3}, []mongo.BulkWriteError{bulkError(1, 14), bulkError(2, CodeWriteConflict), bulkError(3, CodeWriteConflict)}, true, failed)
	if !slices.Equal(open, []int{2, 3}) {
		t.Fatalf("to be sent again: %v", open)
	}
	open = undecided(open, []mongo.BulkWriteError{bulkError(1, CodeWriteConflict)}, true, failed)
	if !slices.Equal(open, []int{3}) {
		t.Fatalf("to be sent again: %v", open)
	}
	if open = undecided(open, []mongo.BulkWriteError{bulkError(0, CodeWriteConflict)}, false, failed); len(open) != 0 {
		t.Fatalf("to be sent forever: %v", open)
	}
	if len(failed) != 2 || failed[1] == nil || failed[3] == nil {
		t.Errorf("failed: %v, want the second and the last", failed)
	}
}
