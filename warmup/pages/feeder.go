package pages

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"
)

// lookBack is how much of what was read is looked at again, in bytes: a look costs a millisecond for each 2 GiB.
const lookBack = 256 << 20

// feeder gives the workers parts of files, one after the other, as far as memory, the rate and others on the disk allow.
type feeder struct {
	prefetch *Prefetch
	jobs     chan<- job
	pace     pace
	watch    *watch
	// gentle is until when one part is read at a time, so that whoever reads the disk past the page cache is seen before it is disturbed.
	gentle time.Time
	buffer []byte // of the feeder as a worker
}

// source is a file that is being read.
type source struct {
	file *os.File
	// copies is true once the kernel turned out to ignore what it is asked for, or to do only a part of it.
	copies atomic.Bool
	// users are the parts that are not done, and the feeder.
	users atomic.Int64
	err   atomic.Pointer[error]
}

func (s *source) release() {
	if s.users.Add(-1) == 0 {
		_ = s.file.Close() // it was only read
	}
}

// file gives out a file. One that cannot be read is noted, and keeps no other from being read.
func (f *feeder) file(ctx context.Context, i int, match match) error {
	p := f.prefetch
	opened, err := os.Open(match.path)
	if err != nil {
		p.note(i, func(r *FileReport) { r.Note = err.Error() })

		return ctx.Err()
	}
	from := &source{file: opened}
	from.users.Store(1)
	defer from.release()
	format, ranges, err := match.layout(opened)
	p.note(i, func(r *FileReport) {
		r.Format = format
		if err != nil {
			r.Note = err.Error() + "; read in plain order"
		}
	})
	f.watch.turn(from, match.info)
	defer f.watch.turn(nil, nil)
	for _, part := range ranges {
		for start := part.Offset; start < part.Offset+part.Length; start += chunk {
			piece := Range{start, min(chunk, part.Offset+part.Length-start)}
			if err := f.piece(ctx, from, piece); err != nil {
				return err
			}
			if failed := from.err.Load(); failed != nil {
				p.note(i, func(r *FileReport) { r.Note = (*failed).Error() })

				return nil
			}
		}
	}

	return nil
}

// piece waits until a part may be read and gives it to a worker.
func (f *feeder) piece(ctx context.Context, from *source, part Range) error {
	p := f.prefetch
	there := look(from.file, part)
	missing := part.Length - there.bytes(part.Length)
	if missing <= 0 {
		p.mu.Lock()
		p.report.Cached += part.Length
		p.mu.Unlock()

		return nil
	}
	if p.guard.stale(missing) {
		// Of what has just been read nothing should have been pushed out.
		start := max(0, part.Offset-lookBack)
		if now := look(from.file, Range{start, part.Offset - start}); now.known && now.evicted*pageSize > lookBack/4 {
			return &stopError{fmt.Sprintf("the kernel pushes pages out of the page cache nearly as fast as they are read, after %s", about(p.fetched.Load()))}
		}
	}
	if err := p.guard.take(missing); err != nil {
		return err
	}
	if err := p.brake.wait(ctx); err != nil {
		return err
	}
	if err := f.pace.wait(ctx, missing); err != nil {
		return err
	}
	from.users.Add(1)
	next := job{from: from, part: part, missing: missing, fetched: &p.fetched}
	p.mu.Lock()
	p.report.Cached += part.Length - missing
	p.mu.Unlock()
	if time.Now().Before(f.gentle) {
		f.buffer = next.do(f.buffer)

		return nil
	}
	select {
	case f.jobs <- next:
		return nil
	case <-ctx.Done():
		from.release()

		return context.Cause(ctx)
	}
}

// layout returns what is read of the file, in order.
func (m match) layout(file *os.File) (Format, []Range, error) {
	size := m.info.Size()
	if m.parts == nil {
		format := formatOf(m.path, file, size)
		ranges, err := layout(format, file, size)

		return format, ranges, err
	}
	ranges := make([]Range, 0, len(m.parts))
	for _, part := range m.parts {
		if part.Length < 0 {
			part.Length = size - part.Offset
		}
		if part.Length < 0 || part.Length > size-part.Offset {
			return FormatPlain, complete(nil, size), FormatPlain.fault(part.Offset, "a model names %d bytes here, expected them within the %d of the file", part.Length, size)
		}
		ranges = append(ranges, part)
	}
	if err := FormatPlain.overlap(ranges, size); err != nil { // tensors that share their data, for example
		return FormatPlain, complete(nil, size), err
	}

	return FormatPlain, complete(ranges, size), nil
}
