package backend

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/pilotlight-proxy/pilotlight/warmup/inference"
)

// inferCall makes the call that asks what the same seed asks over HTTP. Its values are in binary form, the only one that every type has.
func inferCall(model Model, dims [][]int64, seed uint64) (Request, error) {
	random := newRandom(seed)
	call := &inference.ModelInferRequest{ModelName: model.Name, Id: requestID(seed)}
	for i, input := range model.Inputs {
		var raw []byte
		for range elements(dims[i]) {
			raw = appendRaw(raw, input.Datatype, draw(input.Datatype, random))
		}
		call.Inputs = append(call.Inputs, &inference.ModelInferRequest_InferInputTensor{Name: input.Name, Datatype: input.Datatype, Shape: dims[i]})
		call.RawInputContents = append(call.RawInputContents, raw)
	}
	body, err := proto.Marshal(call)
	if err != nil {
		return Request{}, fmt.Errorf("make a call for %s: %w", model.Name, err)
	}

	return Request{Method: http.MethodPost, Path: inference.GRPCInferenceService_ModelInfer_FullMethodName, Body: body, GRPC: true}, nil
}

// appendRaw is appendValue for the binary form, which is little-endian.
func appendRaw(raw []byte, datatype string, drawn uint32) []byte {
	thousandths := float32(drawn) / 1000
	switch datatype {
	case "FP16":
		return binary.LittleEndian.AppendUint16(raw, halfOf(thousandths))
	case "BF16":
		bits := math.Float32bits(thousandths)

		return binary.LittleEndian.AppendUint16(raw, uint16((bits+0x7fff+bits>>16&1)>>16))
	case "FP32":
		return binary.LittleEndian.AppendUint32(raw, math.Float32bits(thousandths))
	case "FP64":
		return binary.LittleEndian.AppendUint64(raw, math.Float64bits(float64(drawn)/1000))
	case "BYTES":
		text := bytesValue(drawn)

		return append(binary.LittleEndian.AppendUint32(raw, uint32(len(text))), text...) //nolint:gosec // a dozen bytes
	default:
		return append(raw, binary.LittleEndian.AppendUint64(nil, uint64(drawn))[:rawWidths[datatype]]...)
	}
}

// rawWidths are the bytes of a value in binary form; of BYTES those of the length before it.
var rawWidths = map[string]int{
	"BOOL": 1, "UINT8": 1, "UINT16": 2, "UINT32": 4, "UINT64": 8, "INT8": 1, "INT16": 2, "INT32": 4, "INT64": 8,
	"FP16": 2, "BF16": 2, "FP32": 4, "FP64": 8, "BYTES": 4,
}

// halfOf rounds a number of at least 2^-14, or 0, and below 65504 to half precision.
func halfOf(number float32) uint16 {
	if number == 0 {
		return 0
	}
	fraction, exponent := math.Frexp(float64(number))
	// A fraction that rounds up to 1 carries over into the exponent, as it should.
	return uint16((exponent+14)<<10 + int(math.RoundToEven(fraction*2048)) - 1024) //nolint:gosec // within sixteen bits, as promised
}

// ofHalf is the number that a half stands for.
func ofHalf(bits uint16) float64 {
	sign, exponent, fraction := 1.0, int(bits>>10&0x1f), float64(bits&0x3ff)
	if bits>>15 == 1 {
		sign = -1
	}
	switch {
	case exponent == 0:
		return sign * math.Ldexp(fraction, -24)
	case exponent == 0x1f && fraction != 0:
		return math.NaN()
	case exponent == 0x1f:
		return math.Inf(int(sign))
	default:
		return sign * math.Ldexp(fraction+1024, exponent-25)
	}
}

// translated is an answer as it would have been over HTTP, so that the same is checked, and the same expected, of both.
func translated(act string, answer Answer) (Answer, error) {
	if !speaksGRPC(answer) {
		return answer, nil
	}
	bad := func(err error) error { return &Error{Act: act, Kind: ErrBadAnswer, Status: answer.Status, Err: err} }
	if answer.Truncated {
		return Answer{}, bad(fmt.Errorf("the answer is longer than %d bytes", len(answer.Body)))
	}
	if err := called(act, answer); err != nil {
		failed, ok := errors.AsType[*Error](err)
		if ok && errors.Is(err, ErrBusy) && strings.Contains(failed.Excerpt, "larger than max") { // what gRPC says of a message, and no word about load
			failed.Kind = ErrRequestRefused
		}

		return Answer{}, err
	}
	messages, err := unframe(answer.Body)
	if err == nil && len(messages) != 1 {
		err = fmt.Errorf("the answer holds %d messages, expected 1", len(messages))
	}
	if err != nil {
		return Answer{}, bad(err)
	}
	said := &inference.ModelInferResponse{}
	if err := proto.Unmarshal(messages[0], said); err != nil {
		return Answer{}, bad(fmt.Errorf("read answer: %w", err))
	}
	if answer.Body, err = inJSON(said); err != nil {
		return Answer{}, bad(err)
	}
	answer.Header = nil

	return answer, nil
}

// inJSON writes an answer in the form that it has over HTTP. Values that are no numbers become what JSON has no word for, as servers write them.
func inJSON(said *inference.ModelInferResponse) ([]byte, error) {
	raw := said.GetRawOutputContents()
	if len(raw) > 0 && len(raw) != len(said.GetOutputs()) {
		return nil, fmt.Errorf("raw_output_contents holds %d tensors of %d outputs", len(raw), len(said.GetOutputs()))
	}
	body := appendQuoted([]byte(`{"model_name":`), said.GetModelName())
	body = appendQuoted(append(body, `,"id":`...), said.GetId())
	body = append(body, `,"outputs":[`...)
	for i, tensor := range said.GetOutputs() {
		if i > 0 {
			body = append(body, ',')
		}
		body = appendQuoted(append(body, `{"name":`...), tensor.GetName())
		body = appendQuoted(append(body, `,"datatype":`...), tensor.GetDatatype())
		body = appendList(append(body, `,"shape":`...), tensor.GetShape(), func(to []byte, n int64) []byte { return strconv.AppendInt(to, n, 10) })
		body = append(body, `,"data":`...)
		if len(raw) == 0 {
			body = appendContents(body, tensor.GetContents())
		} else {
			var err error
			if body, err = appendRawValues(body, tensor.GetDatatype(), raw[i]); err != nil {
				return nil, fmt.Errorf("output %q: %w", tensor.GetName(), err)
			}
		}
		body = append(body, '}')
	}

	return append(body, "]}"...), nil
}

// appendList writes values as a list.
func appendList[T any](body []byte, values []T, value func([]byte, T) []byte) []byte {
	body = append(body, '[')
	for i, one := range values {
		if i > 0 {
			body = append(body, ',')
		}
		body = value(body, one)
	}

	return append(body, ']')
}

// appendContents writes the one list that a tensor's contents should have.
func appendContents(body []byte, contents *inference.InferTensorContents) []byte {
	signed := func(to []byte, n int64) []byte { return strconv.AppendInt(to, n, 10) }
	unsigned := func(to []byte, n uint64) []byte { return strconv.AppendUint(to, n, 10) }
	switch {
	case len(contents.GetBoolContents()) > 0:
		return appendList(body, contents.GetBoolContents(), strconv.AppendBool)
	case len(contents.GetIntContents()) > 0:
		return appendList(body, contents.GetIntContents(), func(to []byte, n int32) []byte { return signed(to, int64(n)) })
	case len(contents.GetInt64Contents()) > 0:
		return appendList(body, contents.GetInt64Contents(), signed)
	case len(contents.GetUintContents()) > 0:
		return appendList(body, contents.GetUintContents(), func(to []byte, n uint32) []byte { return unsigned(to, uint64(n)) })
	case len(contents.GetUint64Contents()) > 0:
		return appendList(body, contents.GetUint64Contents(), unsigned)
	case len(contents.GetFp32Contents()) > 0:
		return appendList(body, contents.GetFp32Contents(), func(to []byte, n float32) []byte { return appendFloat(to, float64(n), 32) })
	case len(contents.GetFp64Contents()) > 0:
		return appendList(body, contents.GetFp64Contents(), func(to []byte, n float64) []byte { return appendFloat(to, n, 64) })
	default:
		return appendList(body, contents.GetBytesContents(), func(to, text []byte) []byte { return appendQuoted(to, string(text)) })
	}
}

func appendFloat(body []byte, number float64, bits int) []byte {
	if math.IsInf(number, 1) {
		return append(body, "Infinity"...)
	}

	return strconv.AppendFloat(body, number, 'g', -1, bits)
}

// appendRawValues writes a tensor in binary form as a list.
func appendRawValues(body []byte, datatype string, raw []byte) ([]byte, error) {
	width := rawWidths[datatype]
	if width == 0 {
		return nil, fmt.Errorf("it is of type %q, which nobody knows how to read", datatype)
	}
	body = append(body, '[')
	for first := true; len(raw) > 0; first = false {
		if !first {
			body = append(body, ',')
		}
		if len(raw) < width {
			return nil, fmt.Errorf("%d bytes are left of raw_output_contents, expected %d for a value of %s", len(raw), width, datatype)
		}
		value := raw[:width]
		raw = raw[width:]
		if datatype == "BYTES" {
			length := uint64(binary.LittleEndian.Uint32(value))
			if uint64(len(raw)) < length {
				return nil, fmt.Errorf("%d bytes are left of raw_output_contents, expected a text of %d", len(raw), length)
			}
			value, raw = raw[:length], raw[length:]
		}
		body = appendRawValue(body, datatype, value)
	}

	return append(body, ']'), nil
}

func appendRawValue(body []byte, datatype string, value []byte) []byte {
	if datatype == "BYTES" {
		return appendQuoted(body, string(value))
	}
	var wide [8]byte
	copy(wide[:], value)
	bits := binary.LittleEndian.Uint64(wide[:])
	unused := 64 - 8*len(value)
	switch datatype {
	case "BOOL":
		return strconv.AppendBool(body, bits != 0)
	case "FP16":
		return appendFloat(body, ofHalf(uint16(bits)), 32) //nolint:gosec // two bytes were read
	case "BF16":
		return appendFloat(body, float64(math.Float32frombits(uint32(bits)<<16)), 32) //nolint:gosec // two bytes were read
	case "FP32":
		return appendFloat(body, float64(math.Float32frombits(uint32(bits))), 32) //nolint:gosec // four bytes were read
	case "FP64":
		return appendFloat(body, math.Float64frombits(bits), 64)
	case "INT8", "INT16", "INT32", "INT64":
		return strconv.AppendInt(body, int64(bits<<unused)>>unused, 10) //nolint:gosec // the sign moves to where it belongs
	default:
		return strconv.AppendUint(body, bits, 10)
	}
}
