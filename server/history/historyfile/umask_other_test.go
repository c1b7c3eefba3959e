//go:build !unix

package historyfile_test

func umask(int) int { return 0 }
