package pages

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"slices"
)

const (
	// maxHeader bounds what is read of a file to learn its layout, in bytes. A vocabulary of 256 thousand tokens with its merges takes some 10 MiB.
	maxHeader = 128 << 20
	// maxDimensions is ggml's own.
	maxDimensions = 4
	// maxNested bounds arrays in arrays, which the format allows and nobody writes.
	maxNested = 4
	// maxAlignment bounds a power of two that is 32 in practice.
	maxAlignment = 1 << 20
)

// Types of a value in GGUF.
const (
	ggufUint32 = 4
	ggufString = 8
	ggufArray  = 9
)

// ggufSizes are the sizes of values in bytes, by type; 0 for those that say it themselves.
var ggufSizes = [...]int64{1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8}

// readGGUF returns the header and then each tensor, in the order of the table. How large a tensor is depends on its type, of which there are more every year;
// so each one reaches to the next in the file, padding included.
func readGGUF(file io.ReaderAt, size int64) ([]Range, error) {
	g := &ggufReader{in: bufio.NewReaderSize(io.NewSectionReader(file, 0, min(size, maxHeader)), 1<<16), alignment: 32}
	offsets, places := g.header()
	if g.err != nil {
		return nil, g.err
	}
	data := (g.at + g.alignment - 1) / g.alignment * g.alignment
	starts := make([]int64, 0, len(offsets)+1)
	for i, offset := range offsets {
		if offset > math.MaxInt64-uint64(data) || int64(offset)+data >= size { //nolint:gosec // data is at most maxHeader and an alignment
			return nil, FormatGGUF.fault(places[i], "tensor data at %d, expected an offset within the %d bytes of data", offset, max(0, size-data))
		}
		starts = append(starts, int64(offset)+data) //nolint:gosec // below size
	}

	return append([]Range{{0, min(data, size)}}, until(starts, size)...), nil
}

// until returns the part from each start to the next one in the file.
func until(starts []int64, size int64) []Range {
	sorted := slices.Sorted(slices.Values(starts))
	ranges := make([]Range, 0, len(starts))
	for _, start := range starts {
		next, _ := slices.BinarySearch(sorted, start+1)
		end := size
		if next < len(sorted) {
			end = sorted[next]
		}
		ranges = append(ranges, Range{start, end - start})
	}

	return ranges
}

// ggufReader reads a header from its beginning. After an error it reads nothing more.
type ggufReader struct {
	in        *bufio.Reader
	at        int64
	alignment int64
	err       error
}

// header returns the offset of each tensor's data, as the table has it, and where in the file it says so. Nothing is made as large as a number in the file says:
// what is kept grows with what has really been read.
func (g *ggufReader) header() (offsets []uint64, places []int64) {
	g.skip(4)
	if version := g.number(4); g.err == nil && (version < 2 || version > 3) {
		g.fail(4, "version %d, expected 2 or 3", version)
	}
	tensors, pairs := g.number(8), g.number(8)
	for ; pairs > 0 && g.err == nil; pairs-- {
		key := g.text()
		kind := g.number(4)
		if place := g.at; key == "general.alignment" && kind == ggufUint32 {
			g.alignment = int64(g.number(4)) //nolint:gosec // 4 bytes
			if g.err == nil && (g.alignment == 0 || g.alignment > maxAlignment || g.alignment&(g.alignment-1) != 0) {
				g.fail(place, "alignment %d, expected a power of 2 up to %d", g.alignment, maxAlignment)
			}
		} else {
			g.value(kind, 0)
		}
	}
	for ; tensors > 0 && g.err == nil; tensors-- {
		g.skip(int64(min(g.number(8), math.MaxInt64)))
		place := g.at
		dimensions := g.number(4)
		if g.err == nil && dimensions > maxDimensions {
			g.fail(place, "%d dimensions, expected at most %d", dimensions, maxDimensions)
		}
		g.skip(8*int64(min(dimensions, maxDimensions)) + 4)
		places = append(places, g.at)
		offsets = append(offsets, g.number(8))
	}

	return offsets, places
}

// value passes over a value.
func (g *ggufReader) value(kind uint64, nested int) {
	place := g.at - 4
	switch {
	case g.err != nil:
	case kind >= uint64(len(ggufSizes)):
		g.fail(place, "type %d of a value, expected at most %d", kind, len(ggufSizes)-1)
	case kind == ggufString:
		g.skip(int64(min(g.number(8), math.MaxInt64)))
	case kind != ggufArray:
		g.skip(ggufSizes[kind])
	case nested == maxNested:
		g.fail(place, "arrays in arrays, %d deep", nested+1)
	default:
		of, count := g.number(4), g.number(8)
		if g.err == nil && of < uint64(len(ggufSizes)) && ggufSizes[of] > 0 {
			g.skip(int64(min(count, maxHeader)) * ggufSizes[of]) // a longer one runs past the header anyway

			return
		}
		for ; count > 0 && g.err == nil; count-- {
			g.value(of, nested+1)
		}
	}
}

// number reads a number of 4 or 8 bytes.
func (g *ggufReader) number(size int) uint64 {
	var bytes [8]byte
	if g.err == nil {
		if _, err := io.ReadFull(g.in, bytes[:size]); err != nil {
			g.ended(err)
		}
		g.at += int64(size)
	}

	return binary.LittleEndian.Uint64(bytes[:])
}

// text reads a key, of at most 64 KiB as the format has it.
func (g *ggufReader) text() string {
	place := g.at
	length := g.number(8)
	if g.err == nil && length > 1<<16-1 {
		g.fail(place, "a key of %d bytes, expected at most 65535", length)
	}
	if g.err != nil {
		return ""
	}
	bytes := make([]byte, length)
	if _, err := io.ReadFull(g.in, bytes); err != nil {
		g.ended(err)
	}
	g.at += int64(length) //nolint:gosec // at most 65535

	return string(bytes)
}

func (g *ggufReader) skip(size int64) {
	if g.err != nil {
		return
	}
	if size > maxHeader-g.at {
		g.fail(g.at, "%d bytes to pass over, which ends beyond the %d that a header may have", size, int64(maxHeader))

		return
	}
	if _, err := g.in.Discard(int(size)); err != nil {
		g.ended(err)
	}
	g.at += size
}

// ended notes a header that goes beyond the file, or beyond what is read of it.
func (g *ggufReader) ended(err error) {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		g.fail(g.at, "the file, or the %d bytes that a header may have, end here", int64(maxHeader))
	} else {
		g.err = err
	}
}

func (g *ggufReader) fail(offset int64, text string, values ...any) {
	g.err = FormatGGUF.fault(offset, text, values...)
}
