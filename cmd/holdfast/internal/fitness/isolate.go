package fitness

import (
	"strings"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/guard"
	"github.com/holdfast-go/holdfast/server/fit"
)

// Isolation says which kinds of run --isolate are possible here, by trying them. It has
// nothing to do with the store.
func Isolation() fit.Finding {
	var can, cannot []string
	for _, kind := range guard.Isolations {
		g, err := guard.Start(kind)
		if err != nil {
			cannot = append(cannot, err.Error())
			continue
		}
		g.Close()
		can = append(can, string(kind))
	}
	text := "run --isolate cannot be used here: "
	if len(can) > 0 {
		text = "run --isolate can be used here: " + strings.Join(can, " and ")
		if len(cannot) > 0 {
			text += "; but "
		}
	}
	return fit.Finding{Check: "isolate", Result: fit.Note, Text: text + strings.Join(cannot, ", and ")}
}
