package mongokit

import (
	"errors"
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/holdfast-go/holdfast/driver"
)

func bulkError(index, code int) mongo.BulkWriteError {
	return mongo.BulkWriteError{WriteError: mongo.WriteError{Index: index, Code: code}}
}

// A write that failed stays failed while others, which met a conflict, are sent again.
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

func TestDecided(t *testing.T) {
	duplicate := mongo.WriteException{WriteErrors: []mongo.WriteError{{Code: 11000}}}
	conflict := mongo.CommandError{Code: CodeWriteConflict}
	other := errors.New("cut")
	for _, c := range []struct {
		replies []error
		want    error
		sent    int
	}{
		{[]error{nil}, nil, 1},
		{[]error{duplicate, conflict, nil}, nil, 3},
		{[]error{duplicate, other}, other, 2},
		{slices.Repeat([]error{duplicate}, maxTries+1), duplicate, maxTries},
	} {
		sent := 0
		err := Retry(t.Context(), func() error { sent++; return c.replies[sent-1] })
		if sent != c.sent || (err == nil) != (c.want == nil) || errors.Is(err, driver.ErrHeld) {
			t.Errorf("%v: sent %d times, error %v", c.replies, sent, err)
		}
	}
}
