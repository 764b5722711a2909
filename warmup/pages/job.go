package pages

import (
	"errors"
	"io"
	"sync/atomic"
)

// copyBuffer is what a worker reads at once where the kernel does not read ahead as it is asked to, in bytes.
const copyBuffer = 256 << 10

// job is a part of a file to bring into the page cache.
type job struct {
	from    *source
	part    Range
	missing int64
	fetched *atomic.Int64
}

// do brings the part, and waits until it is there: the kernel counts a page as cached from when it begins to read it. The buffer is the worker's, made when it is needed.
func (j job) do(buffer []byte) []byte {
	defer j.from.release()
	if !j.from.copies.Load() && j.ahead() {
		j.fetched.Add(j.missing)

		return buffer
	}
	if buffer == nil {
		buffer = make([]byte, copyBuffer)
	}
	if _, err := io.CopyBuffer(hole{}, io.NewSectionReader(j.from.file, j.part.Offset, j.part.Length), buffer); err != nil {
		j.from.err.Store(&err)

		return buffer
	}
	j.fetched.Add(j.missing)

	return buffer
}

// ahead has the kernel read the part, and says whether it did all of it.
func (j job) ahead() bool {
	if err := ask(j.from.file, j.part); err != nil {
		j.from.copies.Store(true)

		return false
	}
	if there := look(j.from.file, j.part); !there.known || there.bytes(j.part.Length) < j.part.Length {
		j.from.copies.Store(true)

		return false
	}
	var last [1]byte
	if _, err := j.from.file.ReadAt(last[:], j.part.Offset+j.part.Length-1); err != nil && !errors.Is(err, io.EOF) {
		j.from.err.Store(&err)
	}

	return true
}

// hole is where copies go; [io.Discard] would bring a buffer of its own.
type hole struct{}

func (hole) Write(p []byte) (int, error) { return len(p), nil }
