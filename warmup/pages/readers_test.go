package pages

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// TestGGUFOrderIsThatOfTheTensors compares with what the package that writes GGUF says of a file that examples/servers/tiny_gguf.py has written.
func TestGGUFOrderIsThatOfTheTensors(t *testing.T) {
	t.Parallel()
	content := read(t, "testdata/tiny.gguf")
	ranges, err := readGGUF(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(read(t, "testdata/tiny.offsets"))), "\n")
	if len(ranges) != 1+len(lines) {
		t.Fatalf("%d ranges for %d tensors and a header", len(ranges), len(lines))
	}
	for i, line := range lines {
		var offset, length int64
		var name string
		if _, err := fmt.Sscan(line, &offset, &length, &name); err != nil {
			t.Fatal(err)
		}
		if got := ranges[i+1]; got.Offset != offset || got.Length < length || got.Length >= length+32 {
			t.Errorf("%s is read as %v, expected %d bytes and padding at %d", name, got, length, offset)
		}
		if i == 0 && ranges[0] != (Range{0, offset}) {
			t.Errorf("the header is read as %v, expected all before %d", ranges[0], offset)
		}
	}
}

// safetensorsOf writes a file with these tensors, named in an order that is not that of their data.
func safetensorsOf(t testing.TB, sizes ...int) (content []byte, offsets []int64) {
	t.Helper()
	header := map[string]any{"__metadata__": map[string]string{"format": "pt"}}
	at := 0
	for i, size := range sizes {
		header[fmt.Sprintf("w%d", len(sizes)-i)] = map[string]any{"dtype": "U8", "shape": []int{size}, "data_offsets": []int{at, at + size}}
		offsets = append(offsets, int64(at))
		at += size
	}
	text, err := json.Marshal(header)
	if err != nil {
		t.Fatal(err)
	}
	content = append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...)
	for i := range offsets {
		offsets[i] += int64(len(content))
	}

	return append(content, make([]byte, at)...), offsets
}

func TestSafetensorsOrderIsThatOfTheTensors(t *testing.T) {
	t.Parallel()
	sizes := []int{100, 7, 4096}
	content, offsets := safetensorsOf(t, sizes...)
	ranges, err := readSafetensors(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	want := []Range{{0, offsets[0]}}
	for i, offset := range offsets {
		want = append(want, Range{offset, int64(sizes[i])})
	}
	if !slices.Equal(ranges, want) {
		t.Errorf("got %v, want %v", ranges, want)
	}
}

// message writes a protobuf message: numbers of fields, each before its content.
func message(fields ...any) []byte {
	var out []byte
	for i := 0; i < len(fields); i += 2 {
		out = protowire.AppendTag(out, protowire.Number(fields[i].(int)), protowire.BytesType) //nolint:errcheck // it is one
		switch content := fields[i+1].(type) {
		case string:
			out = protowire.AppendString(out, content)
		case []byte:
			out = protowire.AppendBytes(out, content)
		}
	}

	return out
}

// onnxTensor is a TensorProto whose data is elsewhere.
func onnxTensor(location, offset, length string) []byte {
	entry := func(key, value string) []byte { return message(1, key, 2, value) }
	tensor := message(8, "w", tensorExternal, entry("location", location), tensorExternal, entry("offset", offset), tensorExternal, entry("length", length), tensorExternal, entry("checksum", "x"))

	return protowire.AppendVarint(protowire.AppendTag(tensor, 14, protowire.VarintType), 1)
}

func onnxModel() []byte {
	inner := message(graphInitializer, onnxTensor("b.data", "0", "64"))
	graph := message(
		graphInitializer, onnxTensor("a.data", "4096", "100"),
		graphNode, message(nodeAttribute, message(attributeGraph, inner)),
		graphNode, message(nodeAttribute, message(attributeTensor, onnxTensor("a.data", "0", "4000"))),
		graphInitializer, message(8, "inline", 9, strings.Repeat("x", 1000)),
		graphInitializer, onnxTensor("a.data", "8192", "10"),
		graphSparse, message(sparseValues, onnxTensor("c.data", "1", "2")),
	)

	return message(2, "producer", modelGraph, graph)
}

func TestONNXOrderIsThatOfTheTensors(t *testing.T) {
	t.Parallel()
	content := onnxModel()
	found, err := readONNX(bytes.NewReader(content), int64(len(content)))
	want := []external{
		{"a.data", Range{4096, 100}}, {"b.data", Range{0, 64}}, {"a.data", Range{0, 4000}}, {"a.data", Range{8192, 10}}, {"c.data", Range{1, 2}},
	}
	if err != nil || !slices.Equal(found, want) {
		t.Errorf("got %v, %v, want %v", found, err, want)
	}
}

// zipOf writes an archive as PyTorch does: nothing is compressed.
func zipOf(t testing.TB, sizes ...int) []byte {
	t.Helper()
	var out bytes.Buffer
	archive := zip.NewWriter(&out)
	for i, size := range sizes {
		entry, err := archive.CreateHeader(&zip.FileHeader{Name: fmt.Sprintf("model/data/%d", i), Method: zip.Store})
		if err == nil {
			_, err = entry.Write(make([]byte, size))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(archive.SetComment("PK, a comment"), archive.Close()); err != nil {
		t.Fatal(err)
	}

	return out.Bytes()
}

func TestZipOrderIsThatOfTheEntries(t *testing.T) {
	t.Parallel()
	content := zipOf(t, 1000, 0, 70000)
	size := int64(len(content))
	ranges, err := readZip(bytes.NewReader(content), size)
	if err != nil {
		t.Fatal(err)
	}
	archive, err := zip.NewReader(bytes.NewReader(content), size)
	if err != nil {
		t.Fatal(err)
	}
	if len(ranges) != 1+len(archive.File) || ranges[0].Offset+ranges[0].Length != size {
		t.Fatalf("got %v", ranges)
	}
	for i, entry := range archive.File {
		offset, err := entry.DataOffset()
		if err != nil {
			t.Fatal(err)
		}
		if got, end := ranges[i+1], offset+int64(entry.CompressedSize64); got.Offset >= offset || got.Offset+got.Length != end {
			t.Errorf("entry %d is read as %v, expected data from %d to %d within it", i, got, offset, end)
		}
	}
}

// TestZip64 reads an archive beyond 4 GiB, which is a hole on the disk but for its ends.
func TestZip64(t *testing.T) {
	t.Parallel()
	const data, large = 64, 5 << 30
	local := append([]byte(zipLocalMark), make([]byte, zipLocalSize-4)...)
	entry := append([]byte(zipEntryMark), make([]byte, zipEntrySize-4)...)
	copy(entry[20:28], bytes.Repeat([]byte{0xff}, 8)) // packed and unpacked size
	extra := binary.LittleEndian.AppendUint16(nil, zip64)
	extra = binary.LittleEndian.AppendUint16(extra, 16)
	extra = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(extra, large), large)
	binary.LittleEndian.PutUint16(entry[30:], uint16(len(extra)))
	entry = append(entry, extra...)
	start := int64(zipLocalSize + large)
	record := append([]byte(zipEnd64Mark), make([]byte, zipEnd64Size-4)...)
	binary.LittleEndian.PutUint64(record[40:], uint64(len(entry)))
	binary.LittleEndian.PutUint64(record[48:], uint64(start))
	locator := append([]byte(zipLocatorMark), make([]byte, zipLocatorSize-4)...)
	binary.LittleEndian.PutUint64(locator[8:], uint64(start)+uint64(len(entry)))
	end := append([]byte(zipEndMark), make([]byte, zipEndSize-4)...)
	copy(end[12:20], bytes.Repeat([]byte{0xff}, 8))
	tail := slices.Concat(entry, record, locator, end)
	file, err := os.Create(t.TempDir() + "/large.pt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close() //nolint:errcheck // a test's
	for content, at := range map[*[]byte]int64{&local: 0, &tail: start} {
		if _, err := file.WriteAt(*content, at); err != nil {
			t.Fatal(err)
		}
	}
	size := start + int64(len(tail))
	ranges, err := readZip(file, size)
	if want := []Range{{start, int64(len(tail))}, {0, start}}; err != nil || !slices.Equal(ranges, want) {
		t.Errorf("got %v, %v, want %v", ranges, err, want)
	}
}

// TestHostileHeaders has numbers that no file can keep. Each must be an error that says where, and cost next to no memory.
func TestHostileHeaders(t *testing.T) {
	u32, u64 := binary.LittleEndian.AppendUint32, binary.LittleEndian.AppendUint64
	gguf := func(tensors, pairs uint64, rest ...byte) []byte {
		return append(u64(u64(u32([]byte("GGUF"), 3), tensors), pairs), rest...)
	}
	tensor := func(dimensions uint32, offset uint64) []byte {
		out := u32(append(u64(nil, 1), 'w'), dimensions)
		for range min(dimensions, 8) {
			out = u64(out, 1)
		}

		return append(u64(u32(out, 0), offset), make([]byte, 64)...)
	}
	pair := func(kind uint32, rest ...byte) []byte { return append(u32(append(u64(nil, 1), 'k'), kind), rest...) }
	nested := []byte{}
	for range 10 {
		nested = u64(u32(nested, ggufArray), 1)
	}
	safetensors := func(header string) []byte { return append(u64(nil, uint64(len(header))), header...) }
	zipped := zipOf(t, 10)
	directory := bytes.Index(zipped, []byte(zipEntryMark))
	patched := func(at int, bytes ...byte) []byte {
		out := slices.Clone(zipped)
		copy(out[at:], bytes)

		return out
	}
	ones := bytes.Repeat([]byte{0xff}, 8)
	tests := []struct {
		name    string
		format  Format
		content []byte
		offset  int64
	}{
		{"gguf of another version", FormatGGUF, u32([]byte("GGUF"), 99), 4},
		{"gguf that ends", FormatGGUF, gguf(1, 0)[:20], 16},
		{"gguf with 2^64-1 tensors", FormatGGUF, gguf(math.MaxUint64, 0), 24},
		{"gguf with 2^63 pairs", FormatGGUF, gguf(0, 1<<63), 24},
		{"gguf with a key of 2^63 bytes", FormatGGUF, gguf(0, 1, u64(nil, 1<<63)...), 24},
		{"gguf with a text of 2^64-1 bytes", FormatGGUF, gguf(0, 1, pair(ggufString, ones...)...), 45},
		{"gguf with an array of 2^64-1 numbers", FormatGGUF, gguf(0, 1, pair(ggufArray, append(u32(nil, 10), ones...)...)...), 49},
		{"gguf with an array of 2^64-1 texts", FormatGGUF, gguf(0, 1, pair(ggufArray, append(u32(nil, ggufString), ones...)...)...), 49},
		{"gguf with arrays in arrays", FormatGGUF, gguf(0, 1, pair(ggufArray, nested...)...), 81},
		{"gguf with a type that is none", FormatGGUF, gguf(0, 1, pair(77)...), 33},
		{"gguf with 2^32-1 dimensions", FormatGGUF, gguf(1, 0, tensor(math.MaxUint32, 0)...), 33},
		{"gguf with an offset past the end", FormatGGUF, gguf(1, 0, tensor(1, 1<<40)...), 49},
		{"gguf with an offset of 2^64-1", FormatGGUF, gguf(1, 0, tensor(1, math.MaxUint64)...), 49},
		{"gguf with a name of 2^63 bytes", FormatGGUF, gguf(1, 0, u64(nil, 1<<63)...), 32},
		{"safetensors with a header of 2^63 bytes", FormatSafetensors, append(u64(nil, 1<<63), '{'), 0},
		{"safetensors of 3 bytes", FormatSafetensors, []byte("abc"), 0},
		{"safetensors without an object", FormatSafetensors, safetensors("[]"), 9},
		{"safetensors with data past the end", FormatSafetensors, safetensors(`{"w":{"data_offsets":[0,1]}}`), 12},
		{"safetensors with negative data", FormatSafetensors, safetensors(`{"w":{"data_offsets":[-1,0]}}`), 12},
		{"safetensors with an offset of 2^64", FormatSafetensors, safetensors(`{"w":{"data_offsets":[0,18446744073709551616]}}`), 12},
		{"safetensors with data that ends first", FormatSafetensors, safetensors(`{"w":{"data_offsets":[0,0,0]}}`), 12},
		{"safetensors without an end", FormatSafetensors, safetensors(`{"w":{"data_offsets":[0,0]}`), 35},
		{"onnx with a field of 2^63 bytes", FormatONNX, append(protowire.AppendTag(nil, modelGraph, protowire.BytesType), protowire.AppendVarint(nil, 1<<63)...), 0},
		{"onnx that is text", FormatONNX, []byte("no such thing"), 0},
		{"onnx with an offset of 2^64", FormatONNX, message(modelGraph, message(graphInitializer, onnxTensor("a", "18446744073709551616", "1"))), 24},
		{"onnx with a negative length", FormatONNX, message(modelGraph, message(graphInitializer, onnxTensor("a", "0", "-1"))), 37},
		{"zip without an end", FormatZip, []byte("PK\x03\x04"), 4},
		{"zip with a directory past the end", FormatZip, patched(len(zipped)-zipEndSize-13+16, 0xfe, 0xff, 0xff, 0xff), int64(len(zipped) - zipEndSize - 13)},
		{"zip64 without a locator", FormatZip, patched(len(zipped)-zipEndSize-13+16, ones[:4]...), int64(len(zipped) - zipEndSize - 13)},
		{"zip with an entry past the end", FormatZip, patched(directory+42, 0xfe, 0xff, 0xff, 0xff), int64(directory)},
		{"zip with a name past the directory", FormatZip, patched(directory+28, 0xff, 0xff), int64(directory)},
		{"zip with a header that is none", FormatZip, patched(0, 'x'), 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := parse(test.format, test.content)
			runtime.ReadMemStats(&after)
			var fault *FormatError
			if !errors.As(err, &fault) || fault.Format != test.format || fault.Offset != test.offset {
				t.Errorf("got %v, expected an error of %v at offset %d", err, test.format, test.offset)
			}
			if spent := after.TotalAlloc - before.TotalAlloc; spent > 4<<20 {
				t.Errorf("it cost %d bytes of memory", spent)
			}
			if ranges, err := layout(test.format, bytes.NewReader(test.content), int64(len(test.content))); err != nil && !slices.Equal(ranges, []Range{{0, int64(len(test.content))}}) {
				t.Errorf("then %v is read, expected the whole file in plain order", ranges)
			}
		})
	}
}

// parse reads the layout of a file.
func parse(format Format, content []byte) (err error) {
	file, size := bytes.NewReader(content), int64(len(content))
	if format == FormatONNX {
		_, err = readONNX(file, size)
	} else {
		_, err = layout(format, file, size)
	}

	return err
}

// TestPartsThatOverlap has tensors that all are the whole of the data: no more is looked at than a file can hold.
func TestPartsThatOverlap(t *testing.T) {
	t.Parallel()
	header := "{"
	for i := range 5 {
		header += fmt.Sprintf(`"w%d":{"data_offsets":[0,1000]},`, i)
	}
	header = strings.TrimSuffix(header, ",") + "}"
	content := slices.Concat(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), []byte(header), make([]byte, 1000))
	size := int64(len(content))
	ranges, err := layout(FormatSafetensors, bytes.NewReader(content), size)
	if err == nil || !strings.Contains(err.Error(), "expected at most twice") || !slices.Equal(ranges, []Range{{0, size}}) {
		t.Errorf("got %v, %v", ranges, err)
	}
}

func TestFormatsAreTold(t *testing.T) {
	t.Parallel()
	tensors, _ := safetensorsOf(t, 1)
	tests := []struct {
		name, path string
		content    []byte
		want       Format
	}{
		{"gguf", "x", read(t, "testdata/tiny.gguf"), FormatGGUF},
		{"a blob of safetensors", "0a1b", tensors, FormatSafetensors},
		{"zip", "model.pt", zipOf(t, 1), FormatZip},
		{"onnx", "model.onnx", onnxModel(), FormatONNX},
		{"library", "libx.so", []byte("\x7fELF and more"), FormatPlain},
		{"short", "x", []byte("G"), FormatPlain},
	}
	for _, test := range tests {
		if got := formatOf(test.path, bytes.NewReader(test.content), int64(len(test.content))); got != test.want {
			t.Errorf("%s: got %v, want %v", test.name, got, test.want)
		}
	}
	for i, want := range []string{"plain", "gguf", "safetensors", "onnx", "zip"} {
		if text, _ := FormatValues()[i].MarshalText(); string(text) != want {
			t.Errorf("format %d is %s, want %s", i, text, want)
		}
	}
}

func TestEveryByteIsRead(t *testing.T) {
	t.Parallel()
	got := complete([]Range{{50, 10}, {60, 5}, {0, 10}, {5, 20}}, 100)
	if want := []Range{{50, 15}, {0, 10}, {5, 20}, {25, 25}, {65, 35}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func FuzzGGUF(f *testing.F) {
	f.Add(read(f, "testdata/tiny.gguf")[:4096])
	f.Add(binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64([]byte("GGUF\x03\x00\x00\x00"), 1), 0))
	fuzz(f, FormatGGUF)
}

func FuzzSafetensors(f *testing.F) {
	content, _ := safetensorsOf(f, 10, 20)
	f.Add(content)
	fuzz(f, FormatSafetensors)
}

func FuzzONNX(f *testing.F) {
	f.Add(onnxModel())
	f.Fuzz(func(t *testing.T, content []byte) {
		found, err := readONNX(bytes.NewReader(content), int64(len(content)))
		checkFault(t, err, FormatONNX, int64(len(content)))
		for _, tensor := range found {
			if tensor.part.Offset < 0 || tensor.part.Length < externalLengthUnknown {
				t.Errorf("external data at %v", tensor.part)
			}
		}
	})
}

func FuzzZip(f *testing.F) {
	f.Add(zipOf(f, 10, 20))
	fuzz(f, FormatZip)
}

// fuzz holds a reader to what it promises of any bytes: parts within the file that together are all of it, or an error that says where; and memory in proportion to the file.
func fuzz(f *testing.F, format Format) {
	f.Helper()
	f.Fuzz(func(t *testing.T, content []byte) {
		size := int64(len(content))
		ranges, err := layout(format, bytes.NewReader(content), size)
		checkFault(t, err, format, size)
		covered := make([]bool, size)
		for _, part := range ranges {
			if part.Offset < 0 || part.Length < 0 || part.Offset > size || part.Length > size-part.Offset {
				t.Fatalf("%v in a file of %d bytes", part, size)
			}
			for i := part.Offset; i < part.Offset+part.Length; i++ {
				covered[i] = true
			}
		}
		if len(ranges) > len(content)+2 {
			t.Fatalf("%d ranges for %d bytes", len(ranges), size)
		}
		if missing := slices.Index(covered, false); missing >= 0 {
			t.Fatalf("byte %d is not read by %v", missing, ranges)
		}
	})
}

func checkFault(t *testing.T, err error, format Format, size int64) {
	t.Helper()
	if err == nil {
		return
	}
	var fault *FormatError
	if !errors.As(err, &fault) || fault.Format != format || fault.Offset < 0 || fault.Offset > size+1<<16 {
		t.Fatalf("got %v, expected an error of %v with an offset within %d bytes", err, format, size)
	}
}

func read(tb testing.TB, name string) []byte {
	tb.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		tb.Fatal(err)
	}

	return content
}
