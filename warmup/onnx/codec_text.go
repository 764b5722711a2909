package onnx

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"
)

// text makes the codec of BYTES.
func text() codec {
	return codec{
		name:         "BYTES",
		parse:        parseTexts,
		format:       formatTexts,
		decode:       decodeTexts,
		encode:       encodeTexts,
		fromContents: textsFromContents,
		toContents: func(values any) *contents {
			list := &contents{}
			for _, value := range as[string](values) {
				list.BytesContents = append(list.BytesContents, []byte(value))
			}

			return list
		},
	}
}

// carriable refuses what the binding would cut off: it hands texts over as C strings.
func carriable(index int, value string) error {
	if strings.IndexByte(value, 0) >= 0 {
		return fmt.Errorf("element %d holds a zero byte, which the ONNX Runtime binding would cut off", index)
	}

	return nil
}

func parseTexts(capacity int) (add func([]byte) error, values func() any) {
	texts := make([]string, 0, capacity)

	return func(token []byte) error {
		var value string
		if len(token) == 0 || token[0] != '"' || json.Unmarshal(token, &value) != nil {
			return fmt.Errorf("element %d: expected BYTES as a string, got %s", len(texts), shorten(token))
		}
		texts = append(texts, value)

		return carriable(len(texts)-1, value)
	}, func() any { return texts }
}

func formatTexts(out []byte, values any) ([]byte, error) {
	for i, value := range as[string](values) {
		if i > 0 {
			out = append(out, ',')
		}
		if !utf8.ValidString(value) {
			return nil, fmt.Errorf("element %d is not UTF-8, which JSON cannot carry: ask over gRPC", i)
		}
		quoted, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		out = append(out, quoted...)
	}

	return out, nil
}

// Raw texts stand after their lengths, 4 bytes, little-endian.
const prefix = 4

func decodeTexts(raw []byte, count int64) (any, error) {
	var texts []string
	for len(raw) > 0 {
		if len(raw) < prefix || int64(len(raw)-prefix) < int64(binary.LittleEndian.Uint32(raw)) {
			return nil, fmt.Errorf("element %d: its length says more bytes than there are", len(texts))
		}
		end := prefix + int(binary.LittleEndian.Uint32(raw))
		value := string(raw[prefix:end])
		if err := carriable(len(texts), value); err != nil {
			return nil, err
		}
		texts, raw = append(texts, value), raw[end:]
	}
	if int64(len(texts)) != count {
		return nil, fmt.Errorf("expected %d elements, got %d", count, len(texts))
	}

	return texts, nil
}

func encodeTexts(out []byte, values any) ([]byte, error) {
	for i, value := range as[string](values) {
		if len(value) > math.MaxUint32 {
			return nil, fmt.Errorf("element %d is longer than its length can say", i)
		}
		out = append(binary.LittleEndian.AppendUint32(out, uint32(len(value))), value...) //nolint:gosec // compared above
	}

	return out, nil
}

func textsFromContents(list *contents) (any, error) {
	texts := make([]string, len(list.GetBytesContents()))
	for i, value := range list.GetBytesContents() {
		texts[i] = string(value)
		if err := carriable(i, texts[i]); err != nil {
			return nil, err
		}
	}

	return texts, nil
}
