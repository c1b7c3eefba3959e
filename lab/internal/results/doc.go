// Package results reads and writes the result files of benchmarks and fault campaigns, and
// makes the tables that documents show of them.
package results
