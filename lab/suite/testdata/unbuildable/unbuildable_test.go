// Package unbuildable does not compile.
package unbuildable

var _ int = "text"
