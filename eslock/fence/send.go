package fence

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/eslock/internal/rest"
	"github.com/holdfast-go/holdfast/internal/foreign"
)

const (
	// onConflict is how often the server itself repeats an update.
	onConflict = 5
	// maxTries is how often an update with conflicts is sent.
	maxTries = 8
)

// item is the answer to the update or to the look.
type item = rest.Item[map[string]json.RawMessage]

// send sends the update, and returns an error unless the token is registered.
func (d Document) send(ctx context.Context, body []byte, token uint64) error {
	params := url.Values{}
	if d.Refresh != "" {
		params.Set("refresh", d.Refresh)
	}
	items, err := rest.Bulk[map[string]json.RawMessage](ctx, d.Client, "/_bulk", params, body, []string{d.ID, d.ID})
	if err != nil {
		return foreign.Error(ctx, err, holdfast.ErrStale) // an error of the client
	}
	err = outcome(items[0], token)
	if err == nil {
		err = registered(items[1], token)
	}
	return err
}

// outcome returns the error in the answer to the update.
func outcome(it item, token uint64) error {
	switch {
	case it.Error != nil:
		return it.Error
	case it.Result == rest.Created, it.Result == rest.Updated:
		return nil
	case it.Result != rest.Noop:
		return fmt.Errorf("the answer says %q", it.Result)
	}
	seen, is := seen(it)
	switch {
	case is && (seen < 0 || seen > driver.MaxToken):
		return fmt.Errorf("%w: its field %q is not a token", holdfast.ErrDamaged, Field)
	case is && seen > float64(token):
		return fmt.Errorf("%w: it has seen token %.0f, which is larger than %d", holdfast.ErrStale, seen, token)
	}
	return errors.New("it was not changed, and the answer does not say why")
}

// registered checks whether the document has the token, or a larger one of another
// holder, after the update.
func registered(it item, token uint64) error {
	if it.Error != nil { // %v, not %w: it is not the error of the update, which was applied
		return fmt.Errorf("whether the token is registered is not known: %v", it.Error)
	}
	if seen, is := seen(it); is && seen >= float64(token) {
		return nil
	}
	return fmt.Errorf("the token is not registered, and stale holders are not refused: the index does not store the field %q of documents. Look at _source in its mapping, and at ingest pipelines", Field)
}

// seen returns the token that the document has seen, negative if the field is not a
// number. is reports whether the field exists. Tokens are exact in a float64.
func seen(it item) (token float64, is bool) {
	text, is := it.Get.Source[Field]
	if is && json.Unmarshal(text, &token) != nil {
		return -1, true
	}
	return token, is
}
