package otelholdfast_test

import (
	"fmt"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memlock"
	"github.com/holdfast-go/holdfast/metrics/otelholdfast"
)

func Example() {
	// The global providers, which the program has set.
	trace, err := otelholdfast.New(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	client := holdfast.New(memlock.New(nil), &holdfast.Options{Trace: trace})
	defer client.Close() // before the TracerProvider's Shutdown
}
