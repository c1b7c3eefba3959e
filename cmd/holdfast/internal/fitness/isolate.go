package fitness

import (
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/guard"
	"github.com/holdfast-go/holdfast/server/fit"
)

// Isolation says whether run --isolate is possible here, by trying it. It has nothing to do
// with the store.
func Isolation() fit.Finding {
	text := "run --isolate can be used here"
	if g, err := guard.Start(true); err != nil {
		text = "run --isolate cannot be used here: " + err.Error()
	} else {
		g.Close()
	}
	return fit.Finding{Check: "isolate", Result: fit.Note, Text: text}
}
