package pages

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

// Format is how a file of weights is laid out.
type Format int

const (
	// FormatPlain is read from its beginning to its end: SavedModel variables, TensorRT plans, shared libraries and all that is unknown.
	FormatPlain Format = iota
	// FormatGGUF is llama.cpp's.
	FormatGGUF
	// FormatSafetensors is Hugging Face's.
	FormatSafetensors
	// FormatONNX is a model of ONNX, its external data in other files.
	FormatONNX
	// FormatZip is what TorchScript, PyTorch and NumPy archives are.
	FormatZip
)

var formatNames = units.Names[Format]{
	FormatPlain:       "plain",
	FormatGGUF:        "gguf",
	FormatSafetensors: "safetensors",
	FormatONNX:        "onnx",
	FormatZip:         "zip",
}

// FormatValues lists every value, in order.
func FormatValues() []Format { return formatNames.Values() }

// String returns the word used in reports.
func (f Format) String() string { return formatNames.Of(f) }

// MarshalText implements [encoding.TextMarshaler].
func (f Format) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// Range is a part of a file.
type Range struct{ Offset, Length int64 }

// FormatError says where a file is not what its beginning promises.
type FormatError struct {
	Format Format
	// Offset is that of the value that cannot be true, in bytes from the beginning of the file.
	Offset int64
	// Text says what stands there and what was expected.
	Text string
}

// Error names the format, the place and what is wrong with it.
func (e *FormatError) Error() string {
	return fmt.Sprintf("read %v at offset %d: %s", e.Format, e.Offset, e.Text)
}

// fault makes a FormatError.
func (f Format) fault(offset int64, text string, values ...any) error {
	return &FormatError{Format: f, Offset: offset, Text: fmt.Sprintf(text, values...)}
}

// formatOf tells the format by the first bytes, since the blobs of a cache of Hugging Face have no names to tell it by; ONNX has no such bytes, only a name.
func formatOf(name string, file io.ReaderAt, size int64) Format {
	var magic [9]byte
	n, _ := file.ReadAt(magic[:], 0)
	switch head := magic[:n]; {
	case bytes.HasPrefix(head, []byte("GGUF")):
		return FormatGGUF
	case bytes.HasPrefix(head, []byte("PK\x03\x04")):
		return FormatZip
	case n == len(magic) && magic[8] == '{' && binary.LittleEndian.Uint64(head) <= uint64(max(0, size-8)):
		return FormatSafetensors
	case filepath.Ext(name) == ".onnx":
		return FormatONNX
	default:
		return FormatPlain
	}
}

// layout returns the parts of a file in the order in which loaders read them, and then what no loader asks for. With an error it is the whole file.
func layout(format Format, file io.ReaderAt, size int64) ([]Range, error) {
	var ranges []Range
	var err error
	switch format {
	case FormatGGUF:
		ranges, err = readGGUF(file, size)
	case FormatSafetensors:
		ranges, err = readSafetensors(file, size)
	case FormatZip:
		ranges, err = readZip(file, size)
	case FormatPlain, FormatONNX: // of a model of ONNX only the data that is elsewhere has an order
	}
	if err == nil {
		err = format.overlap(ranges, size)
	}
	if err != nil {
		ranges = nil
	}

	return complete(ranges, size), err
}

// overlap refuses parts that together are far larger than the file: each byte would be looked at again and again.
func (f Format) overlap(ranges []Range, size int64) error {
	sum := int64(0)
	for _, part := range ranges {
		if sum += part.Length; sum > 2*size {
			return f.fault(part.Offset, "the parts up to here have %d bytes, expected at most twice the %d of the file", sum, size)
		}
	}

	return nil
}

// complete joins neighbours, and adds what no range covers.
func complete(ranges []Range, size int64) []Range {
	var joined []Range
	for _, r := range ranges {
		if last := len(joined) - 1; last >= 0 && joined[last].Offset+joined[last].Length == r.Offset {
			joined[last].Length += r.Length
		} else if r.Length > 0 {
			joined = append(joined, r)
		}
	}
	sorted := slices.SortedFunc(slices.Values(joined), func(a, b Range) int { return int(min(1, max(-1, a.Offset-b.Offset))) })
	end := int64(0)
	for _, r := range append(sorted, Range{Offset: size}) {
		if r.Offset > end {
			joined = append(joined, Range{end, r.Offset - end})
		}
		end = max(end, r.Offset+r.Length)
	}

	return joined
}
