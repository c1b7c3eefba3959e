package httplock

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
)

const (
	// inMemory is the number of bytes of a list that are kept in memory.
	inMemory = 4 << 20
	// maxLine and maxList are limits for reading, in bytes: the longest entry, with names
	// of control characters, has some 40 KB.
	maxLine = 256 << 10
	maxList = 16 << 30
)

var errLong = errors.New("it is too long")

// spool keeps the lines of a list until its reader, who may be slow, has read them: the
// first lines in memory, the others in a temporary file that only this user can read.
type spool struct {
	count  int // the number of lines
	memory bytes.Buffer
	file   *os.File
	named  bool // the file keeps its name until close
}

// fill reads all lines, keeps all but the last one, and returns that.
func (p *spool) fill(from io.Reader) (last []byte, err error) {
	lines := bufio.NewScanner(from)
	lines.Buffer(make([]byte, 0, 16<<10), maxLine)
	to := bufio.NewWriterSize(p, 16<<10)
	size := int64(0)
	for lines.Scan() {
		if len(last) > 0 {
			if size += int64(len(last)) + 1; size > maxList {
				return nil, errLong
			}
			p.count++
			if _, err := to.Write(append(last, '\n')); err != nil {
				return nil, err
			}
		}
		last = append(last[:0], lines.Bytes()...)
	}
	return last, cmp.Or(lines.Err(), to.Flush())
}

// Write implements io.Writer.
func (p *spool) Write(part []byte) (n int, err error) {
	if p.file == nil && p.memory.Len()+len(part) <= inMemory {
		return p.memory.Write(part)
	}
	if p.file == nil {
		if p.file, err = os.CreateTemp("", "holdfast-list-*"); err != nil {
			return 0, fmt.Errorf("no room for a long list: %w", err)
		}
		// A file without a name disappears with the process, however that ends. Some
		// systems do not remove open files.
		p.named = os.Remove(p.file.Name()) != nil
	}
	return p.file.Write(part)
}

// all yields the kept lines.
func (p *spool) all() iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		from := io.Reader(bytes.NewReader(p.memory.Bytes()))
		if p.file != nil {
			if _, err := p.file.Seek(0, io.SeekStart); err != nil {
				yield(nil, err)
				return
			}
			from = io.MultiReader(from, p.file)
		}
		lines := bufio.NewScanner(from)
		lines.Buffer(make([]byte, 0, 16<<10), maxLine)
		for lines.Scan() {
			if !yield(lines.Bytes(), nil) {
				return
			}
		}
		if err := lines.Err(); err != nil {
			yield(nil, err)
		}
	}
}

func (p *spool) close() {
	if p.file != nil {
		_ = p.file.Close()
	}
	if p.named {
		_ = os.Remove(p.file.Name())
	}
}
