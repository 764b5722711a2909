package backend

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
)

// requestLimit bounds the body of a made-up request, in bytes: JSON is a dear way to write tensors.
const requestLimit = 64 << 20

// Request implements [Dialect]. Dimensions left open get what the shape says, or 1; the batch its size. Values are random and within a range that means something
// to any model of that type: FP16, BF16, FP32 and FP64 are in [0,1) with three decimals; UINT8 is 0 to 255, as in images; other integers are 0 or 1,
// which every vocabulary, mask and index of two has; BOOL is either; BYTES are short texts. One seed has the same values over HTTP and gRPC. Requests of different seeds differ as far as the
// range allows, so that no cache of answers passes for warmth.
func (o *OIP) Request(model Model, shape Shape, seed uint64) (Request, error) {
	if err := refusal(model, shape); err != nil {
		return Request{}, err
	}
	if shape.Batch > 1 && !model.Batched {
		return Request{}, unfit(model, shape, "the model takes no batches")
	}
	if e := shape.Endpoint; e != EndpointNative && e != EndpointHTTP && e != EndpointGRPC {
		return Request{}, unfit(model, shape, fmt.Sprintf("there is no endpoint %s, expected %s or %s", e, EndpointHTTP, EndpointGRPC))
	}
	size := 64
	dims := make([][]int64, len(model.Inputs))
	for i, input := range model.Inputs {
		dims[i] = sizes(input, shape, model.Batched)
		width, known := widths[input.Datatype]
		if !known {
			return Request{}, unfit(model, shape, fmt.Sprintf("input %q is of type %q, for which no value is known", input.Name, input.Datatype))
		}
		count := elements(dims[i])
		if count > requestLimit || size+int(count)*width > requestLimit {
			return Request{}, unfit(model, shape, fmt.Sprintf("its body would exceed %d bytes", requestLimit))
		}
		size += int(count)*width + len(input.Name) + 128
	}
	if shape.Endpoint == EndpointGRPC {
		return inferCall(model, dims, seed)
	}
	random := newRandom(seed)
	body := make([]byte, 0, size)
	body = append(body, `{"id":"`...)
	body = append(body, requestID(seed)...)
	body = append(body, `","inputs":[`...)
	for i, input := range model.Inputs {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(body, `{"name":`...)
		body = appendQuoted(body, input.Name)
		body = append(body, `,"shape":[`...)
		for j, dim := range dims[i] {
			if j > 0 {
				body = append(body, ',')
			}
			body = strconv.AppendInt(body, dim, 10)
		}
		body = append(body, `],"datatype":`...)
		body = appendQuoted(body, input.Datatype)
		body = append(body, `,"data":[`...)
		for j := range elements(dims[i]) {
			if j > 0 {
				body = append(body, ',')
			}
			body = appendValue(body, input.Datatype, draw(input.Datatype, random))
		}
		body = append(body, "]}"...)
	}
	body = append(body, "]}"...)

	return Request{Method: http.MethodPost, Path: modelPath(model.Name) + "/infer", Body: body}, nil
}

// widths are the most bytes that a value and its comma take.
var widths = map[string]int{
	"BOOL": 6, "UINT8": 4, "UINT16": 2, "UINT32": 2, "UINT64": 2, "INT8": 2, "INT16": 2, "INT32": 2, "INT64": 2,
	"FP16": 6, "BF16": 6, "FP32": 6, "FP64": 6, "BYTES": 16,
}

// newRandom makes the same values of the same seed.
func newRandom(seed uint64) *rand.Rand {
	return rand.New(rand.NewPCG(seed, 0x70696c6f746c6974)) //nolint:gosec // values need to differ, not to be secret
}

func requestID(seed uint64) string { return "pilotlight-" + strconv.FormatUint(seed, 36) }

// draw draws a value of that type: a whole number, thousandths, or what a text is made of.
func draw(datatype string, random *rand.Rand) uint32 {
	switch datatype {
	case "UINT8":
		return random.Uint32N(256)
	case "FP16", "BF16", "FP32", "FP64":
		return random.Uint32N(1000)
	case "BYTES":
		return random.Uint32()
	default:
		return random.Uint32N(2)
	}
}

func bytesValue(drawn uint32) string { return "warm " + strconv.FormatUint(uint64(drawn), 36) }

// appendValue writes what was drawn as JSON.
func appendValue(body []byte, datatype string, drawn uint32) []byte {
	switch datatype {
	case "BOOL":
		return strconv.AppendBool(body, drawn == 1)
	case "FP16", "BF16", "FP32", "FP64":
		return append(body, '0', '.', digit(drawn/100), digit(drawn/10%10), digit(drawn%10))
	case "BYTES":
		return append(append(append(body, '"'), bytesValue(drawn)...), '"')
	default:
		return strconv.AppendUint(body, uint64(drawn), 10)
	}
}

func digit(n uint32) byte { return byte('0' + n) } //nolint:gosec // n is below ten

// sizes replaces what a tensor leaves open.
func sizes(input Tensor, shape Shape, batched bool) []int64 {
	dims := make([]int64, len(input.Shape))
	for i, dim := range input.Shape {
		dims[i] = dim
		if dim < 0 {
			dims[i] = int64(max(shape.Dims.Size(input.Name, i), 1))
		}
	}
	if batched && len(dims) > 0 {
		dims[0] = int64(max(shape.Batch, 1))
	}

	return dims
}

// elements multiplies dimensions; a product too large for any request is returned as such, without overflow.
func elements(dims []int64) int64 {
	count := int64(1)
	for _, dim := range dims {
		if dim > 0 && count > requestLimit/dim {
			return requestLimit + 1
		}
		count *= dim
	}

	return count
}
