package onnx

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/pilotlight-proxy/pilotlight/warmup/inference"
)

// codec carries the elements of one datatype between their forms: JSON, raw bytes, typed gRPC contents and a Go slice.
// Every error starts with the index of the element.
type codec struct {
	name string
	// size of a raw element in bytes, 0 when it varies.
	size int
	// parse appends elements that arrive as JSON tokens, one by one. capacity is a guess.
	parse func(capacity int) (add func(token []byte) error, values func() any)
	// format appends the elements as JSON, parted by commas.
	format func(out []byte, values any) ([]byte, error)
	// decode reads exactly count raw elements.
	decode func(raw []byte, count int64) (any, error)
	// encode appends the elements as raw bytes.
	encode func(out []byte, values any) ([]byte, error)
	// fromContents takes the elements out of the list that belongs to the datatype.
	fromContents func(*inference.InferTensorContents) (any, error)
	// toContents puts them there.
	toContents func(values any) *inference.InferTensorContents
}

type contents = inference.InferTensorContents

// codecs has one codec for each Datatype.
var codecs = map[Datatype]codec{
	Bool: numeric("BOOL", 1, parseBool, strconv.AppendBool,
		func(c *contents) []bool { return c.GetBoolContents() }, func(v []bool) *contents { return &contents{BoolContents: v} }),
	Int8:   signed[int8]("INT8", 8),
	Int16:  signed[int16]("INT16", 16),
	Int32:  signed[int32]("INT32", 32),
	Uint8:  unsigned[uint8]("UINT8", 8),
	Uint16: unsigned[uint16]("UINT16", 16),
	Uint32: unsigned[uint32]("UINT32", 32),
	Int64: numeric("INT64", 8, parseInt[int64](64), func(out []byte, v int64) []byte { return strconv.AppendInt(out, v, 10) },
		func(c *contents) []int64 { return c.GetInt64Contents() }, func(v []int64) *contents { return &contents{Int64Contents: v} }),
	Uint64: numeric("UINT64", 8, parseUint[uint64](64), func(out []byte, v uint64) []byte { return strconv.AppendUint(out, v, 10) },
		func(c *contents) []uint64 { return c.GetUint64Contents() }, func(v []uint64) *contents { return &contents{Uint64Contents: v} }),
	FP32: numeric("FP32", 4, parseFloat[float32](32), func(out []byte, v float32) []byte { return strconv.AppendFloat(out, float64(v), 'g', -1, 32) },
		func(c *contents) []float32 { return c.GetFp32Contents() }, func(v []float32) *contents { return &contents{Fp32Contents: v} }),
	FP64: numeric("FP64", 8, parseFloat[float64](64), func(out []byte, v float64) []byte { return strconv.AppendFloat(out, v, 'g', -1, 64) },
		func(c *contents) []float64 { return c.GetFp64Contents() }, func(v []float64) *contents { return &contents{Fp64Contents: v} }),
	Bytes: text(),
}

type number interface {
	~bool | ~int8 | ~int16 | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~float32 | ~float64
}

// numeric makes the codec of a Go type that has a list of its own in the contents.
func numeric[T number](name string, size int, parse func(string) (T, error), format func([]byte, T) []byte,
	from func(*contents) []T, to func([]T) *contents,
) codec {
	c := plain(name, size, parse, format)
	c.fromContents = func(list *contents) (any, error) { return from(list), nil }
	c.toContents = func(values any) *contents { return to(as[T](values)) }

	return c
}

// signed makes the codec of a type that travels in int_contents.
func signed[T ~int8 | ~int16 | ~int32](name string, bits int) codec {
	c := plain(name, bits/8, parseInt[T](bits), func(out []byte, v T) []byte { return strconv.AppendInt(out, int64(v), 10) })
	c.fromContents = func(list *contents) (any, error) { return narrow[T](name, list.GetIntContents()) }
	c.toContents = func(values any) *contents { return &contents{IntContents: widen[int32](as[T](values))} }

	return c
}

// unsigned makes the codec of a type that travels in uint_contents.
func unsigned[T ~uint8 | ~uint16 | ~uint32](name string, bits int) codec {
	c := plain(name, bits/8, parseUint[T](bits), func(out []byte, v T) []byte { return strconv.AppendUint(out, uint64(v), 10) })
	c.fromContents = func(list *contents) (any, error) { return narrow[T](name, list.GetUintContents()) }
	c.toContents = func(values any) *contents { return &contents{UintContents: widen[uint32](as[T](values))} }

	return c
}

// plain makes what all but BYTES have in common.
func plain[T number](name string, size int, parse func(string) (T, error), format func([]byte, T) []byte) codec {
	return codec{
		name: name,
		size: size,
		parse: func(capacity int) (func([]byte) error, func() any) {
			values := make([]T, 0, capacity)

			return func(token []byte) error {
				value, err := parse(string(token))
				if err != nil {
					return fmt.Errorf("element %d: expected %s, got %s", len(values), name, shorten(token))
				}
				values = append(values, value)

				return nil
			}, func() any { return values }
		},
		format: func(out []byte, values any) ([]byte, error) {
			for i, value := range as[T](values) {
				if i > 0 {
					out = append(out, ',')
				}
				if notJSON(value) {
					return nil, fmt.Errorf("element %d is %v, which JSON cannot carry: ask over gRPC", i, value)
				}
				out = format(out, value)
			}

			return out, nil
		},
		decode: func(raw []byte, count int64) (any, error) {
			// Divided, not multiplied: a count may be as large as a request claims.
			if len(raw)%size != 0 || int64(len(raw)/size) != count {
				return nil, fmt.Errorf("expected %d elements of %d bytes, got %d bytes", count, size, len(raw))
			}
			values := make([]T, count)
			_, err := binary.Decode(raw, binary.LittleEndian, values)

			return values, err
		},
		encode: func(out []byte, values any) ([]byte, error) {
			return binary.Append(out, binary.LittleEndian, as[T](values))
		},
	}
}

func notJSON(value any) bool {
	switch v := value.(type) {
	case float32:
		return math.IsNaN(float64(v)) || math.IsInf(float64(v), 0)
	case float64:
		return math.IsNaN(v) || math.IsInf(v, 0)
	default:
		return false
	}
}

// as returns the slice in values. Another type would be a mistake of ours, so it is as if there were no values.
func as[T any](values any) []T {
	list, _ := values.([]T)

	return list
}

func narrow[T ~int8 | ~int16 | ~int32 | ~uint8 | ~uint16 | ~uint32, W int32 | uint32](name string, wide []W) (any, error) {
	values := make([]T, len(wide))
	for i, value := range wide {
		values[i] = T(value)
		if W(values[i]) != value {
			return nil, fmt.Errorf("element %d: expected %s, got %d", i, name, value)
		}
	}

	return values, nil
}

func widen[W int32 | uint32, T ~int8 | ~int16 | ~int32 | ~uint8 | ~uint16 | ~uint32](values []T) []W {
	wide := make([]W, len(values))
	for i, value := range values {
		wide[i] = W(value)
	}

	return wide
}

func parseBool(token string) (bool, error) {
	if token != "true" && token != "false" {
		return false, strconv.ErrSyntax
	}

	return token == "true", nil
}

func parseInt[T ~int8 | ~int16 | ~int32 | ~int64](bits int) func(string) (T, error) {
	return func(token string) (T, error) {
		value, err := strconv.ParseInt(token, 10, bits)

		return T(value), err
	}
}

func parseUint[T ~uint8 | ~uint16 | ~uint32 | ~uint64](bits int) func(string) (T, error) {
	return func(token string) (T, error) {
		value, err := strconv.ParseUint(token, 10, bits)

		return T(value), err
	}
}

// parseFloat refuses what strconv takes and JSON does not ("true" never gets that far, "Inf" and hexadecimals would).
func parseFloat[T ~float32 | ~float64](bits int) func(string) (T, error) {
	return func(token string) (T, error) {
		if token == "" || strings.IndexByte("-0123456789", token[0]) < 0 {
			return 0, strconv.ErrSyntax
		}
		value, err := strconv.ParseFloat(token, bits)

		return T(value), err
	}
}

// shorten quotes a token in an error, however long it is.
func shorten(token []byte) string {
	const most = 40
	if len(token) > most {
		return strings.ToValidUTF8(string(token[:most]), "") + "..."
	}

	return string(token)
}
