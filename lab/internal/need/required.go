package need

import (
	"os"
	"slices"
	"strings"
)

// Required reports whether HOLDFAST_REQUIRE, a list with commas, has the word.
func Required(word string) bool {
	words := strings.FieldsFunc(os.Getenv("HOLDFAST_REQUIRE"), func(c rune) bool { return c == ',' || c == ' ' })
	return slices.Contains(words, word)
}
