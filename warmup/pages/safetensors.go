package pages

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"slices"
)

// maxSafetensors is the longest header that the format allows, in bytes.
const maxSafetensors = 100_000_000

// readSafetensors returns the header and then each tensor, in the order of their offsets: that is the order in which the library that loaders use hands them out.
func readSafetensors(file io.ReaderAt, size int64) ([]Range, error) {
	var prefix [8]byte
	if _, err := file.ReadAt(prefix[:], 0); err != nil {
		return nil, FormatSafetensors.fault(0, "a file of %d bytes, expected the 8 of the header's length", size)
	}
	length := binary.LittleEndian.Uint64(prefix[:])
	if length > uint64(min(maxSafetensors, max(0, size-8))) {
		return nil, FormatSafetensors.fault(0, "a header of %d bytes in a file of %d, expected at most %d", length, size, maxSafetensors)
	}
	data := 8 + int64(length)                                                                          //nolint:gosec // at most maxSafetensors
	tensors, err := tensorsOf(json.NewDecoder(io.NewSectionReader(file, 8, int64(length))), size-data) //nolint:gosec // as above
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(tensors, func(a, b Range) int { return cmp.Compare(a.Offset, b.Offset) })
	ranges := make([]Range, 0, 1+len(tensors))
	ranges = append(ranges, Range{0, data})
	for _, tensor := range tensors {
		ranges = append(ranges, Range{data + tensor.Offset, tensor.Length})
	}

	return ranges, nil
}

// tensorsOf reads the header, tensor by tensor, so that no more than one of them is kept besides its place.
func tensorsOf(header *json.Decoder, size int64) ([]Range, error) {
	at := func() int64 { return 8 + header.InputOffset() }
	if token, err := header.Token(); err != nil || token != json.Delim('{') {
		return nil, FormatSafetensors.fault(at(), "expected the header to be a JSON object")
	}
	var tensors []Range
	for header.More() {
		name, err := header.Token()
		if err != nil {
			return nil, FormatSafetensors.fault(at(), "no name of a tensor: %v", err)
		}
		place := at()
		var content json.RawMessage
		if err := header.Decode(&content); err != nil {
			return nil, FormatSafetensors.fault(place, "no JSON: %v", err)
		}
		if name == "__metadata__" {
			continue
		}
		var tensor struct {
			Offsets []int64 `json:"data_offsets"`
		}
		if err := json.Unmarshal(content, &tensor); err != nil || len(tensor.Offsets) != 2 {
			return nil, FormatSafetensors.fault(place, "expected a tensor with two data_offsets, got %.80q", content)
		}
		begin, end := tensor.Offsets[0], tensor.Offsets[1]
		if begin < 0 || begin > end || end > size {
			return nil, FormatSafetensors.fault(place, "data from %d to %d, expected it within the %d bytes of data", begin, end, size)
		}
		tensors = append(tensors, Range{begin, end - begin})
	}
	if _, err := header.Token(); err != nil {
		return nil, FormatSafetensors.fault(at(), "the header has no end: %v", err)
	}

	return tensors, nil
}

// maxIndex bounds the index of a model in many files, in bytes; that of a model with 100 thousand tensors has some 10 MiB.
const maxIndex = 64 << 20

// readIndex returns the names of the files that an index says the weights are in, each once and in the order in which loaders open them: that of their names.
func readIndex(file io.Reader) ([]string, error) {
	content, err := io.ReadAll(io.LimitReader(file, maxIndex+1))
	if err != nil {
		return nil, err
	}
	if len(content) > maxIndex {
		return nil, errors.New("the index is longer than 64MiB")
	}
	var index struct {
		Weights map[string]string `json:"weight_map"`
	}
	if err := json.NewDecoder(bytes.NewReader(content)).Decode(&index); err != nil {
		return nil, err
	}
	if len(index.Weights) == 0 {
		return nil, errors.New("expected a weight_map, found none")
	}
	shards := make([]string, 0, len(index.Weights))
	for _, shard := range index.Weights {
		shards = append(shards, shard)
	}
	slices.Sort(shards)

	return slices.Compact(shards), nil
}
