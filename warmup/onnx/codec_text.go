package onnx

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"
)

// text makes the codec of BYTES.
func text() codec {
	const zero = "holds a zero byte, which the ONNX Runtime binding would cut off"

	return codec{
		name: "BYTES",
		parse: func(capacity int) (func([]byte) error, func() any) {
			values := make([]string, 0, capacity)

			return func(token []byte) error {
				var value string
				if len(token) == 0 || token[0] != '"' || json.Unmarshal(token, &value) != nil {
					return fmt.Errorf("element %d: expected BYTES as a string, got %s", len(values), shorten(token))
				}
				if strings.IndexByte(value, 0) >= 0 {
					return fmt.Errorf("element %d %s", len(values), zero)
				}
				values = append(values, value)

				return nil
			}, func() any { return values }
		},
		format: func(out []byte, values any) ([]byte, error) {
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
		},
		decode: func(raw []byte, count int64) (any, error) {
			var values []string
			for len(raw) > 0 {
				if len(raw) < 4 || uint64(len(raw)-4) < uint64(binary.LittleEndian.Uint32(raw)) {
					return nil, fmt.Errorf("element %d: its length says more bytes than there are", len(values))
				}
				end := 4 + int(binary.LittleEndian.Uint32(raw))
				value := string(raw[4:end])
				if strings.IndexByte(value, 0) >= 0 {
					return nil, fmt.Errorf("element %d %s", len(values), zero)
				}
				values, raw = append(values, value), raw[end:]
			}
			if int64(len(values)) != count {
				return nil, fmt.Errorf("expected %d elements, got %d", count, len(values))
			}

			return values, nil
		},
		encode: func(out []byte, values any) ([]byte, error) {
			for _, value := range as[string](values) {
				if len(value) > math.MaxUint32 {
					return nil, errors.New("an element is longer than its length can say")
				}
				out = append(binary.LittleEndian.AppendUint32(out, uint32(len(value))), value...)
			}

			return out, nil
		},
		fromContents: func(list *contents) (any, error) {
			values := make([]string, len(list.GetBytesContents()))
			for i, value := range list.GetBytesContents() {
				values[i] = string(value)
				if strings.IndexByte(values[i], 0) >= 0 {
					return nil, fmt.Errorf("element %d %s", i, zero)
				}
			}

			return values, nil
		},
		toContents: func(values any) *contents {
			list := &contents{}
			for _, value := range as[string](values) {
				list.BytesContents = append(list.BytesContents, []byte(value))
			}

			return list
		},
	}
}
