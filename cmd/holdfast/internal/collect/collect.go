// Package collect makes slices of what the lists of a store yield.
package collect

import "iter"

// All returns all that the list yields, or its error alone.
func All[T any](list iter.Seq2[T, error]) ([]T, error) {
	var all []T
	for v, err := range list {
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, nil
}
