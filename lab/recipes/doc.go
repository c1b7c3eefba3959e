// Package recipes runs the code that docs/recipes.md and docs/http.md show. A test reads the
// code from the page, replaces the reader's store and folders with its own, and starts the code
// twice. The commands of the reader are scripts that record their start and their end, and that
// end when the test lets them. The package has tests only.
package recipes
