package warmup

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

const (
	// importConfig bounds a config.pbtxt, in bytes; importRequests how many requests one makes, and importTotal their bodies together; importBody the body of
	// one, so that its base64 fits into a line.
	importConfig   = 1 << 20
	importRequests = 1000
	importTotal    = 256 << 20
	importBody     = replayLine / 2
)

// tritonSchema describes as much of Triton's model configuration as is read here. Only names matter in its text form, so the numbers are ours.
const tritonSchema = `
name: "triton.proto" syntax: "proto3"
enum_type { name: "Type"
  value { name: "TYPE_INVALID" number: 0 } value { name: "TYPE_BOOL" number: 1 } value { name: "TYPE_UINT8" number: 2 }
  value { name: "TYPE_UINT16" number: 3 } value { name: "TYPE_UINT32" number: 4 } value { name: "TYPE_UINT64" number: 5 }
  value { name: "TYPE_INT8" number: 6 } value { name: "TYPE_INT16" number: 7 } value { name: "TYPE_INT32" number: 8 }
  value { name: "TYPE_INT64" number: 9 } value { name: "TYPE_FP16" number: 10 } value { name: "TYPE_FP32" number: 11 }
  value { name: "TYPE_FP64" number: 12 } value { name: "TYPE_STRING" number: 13 } value { name: "TYPE_BF16" number: 14 } }
message_type { name: "Config"
  field { name: "name" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
  field { name: "max_batch_size" number: 2 type: TYPE_INT32 label: LABEL_OPTIONAL }
  field { name: "model_warmup" number: 3 type: TYPE_MESSAGE type_name: ".Warmup" label: LABEL_REPEATED } }
message_type { name: "Warmup"
  field { name: "name" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
  field { name: "batch_size" number: 2 type: TYPE_UINT32 label: LABEL_OPTIONAL }
  field { name: "inputs" number: 3 type: TYPE_MESSAGE type_name: ".Warmup.InputsEntry" label: LABEL_REPEATED }
  field { name: "count" number: 4 type: TYPE_UINT32 label: LABEL_OPTIONAL }
  nested_type { name: "InputsEntry" options { map_entry: true }
    field { name: "key" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
    field { name: "value" number: 2 type: TYPE_MESSAGE type_name: ".Input" label: LABEL_OPTIONAL } } }
message_type { name: "Input"
  field { name: "data_type" number: 1 type: TYPE_ENUM type_name: ".Type" label: LABEL_OPTIONAL }
  field { name: "dims" number: 2 type: TYPE_INT64 label: LABEL_REPEATED }
  field { name: "zero_data" number: 3 type: TYPE_BOOL label: LABEL_OPTIONAL oneof_index: 0 }
  field { name: "random_data" number: 4 type: TYPE_BOOL label: LABEL_OPTIONAL oneof_index: 0 }
  field { name: "input_data_file" number: 5 type: TYPE_STRING label: LABEL_OPTIONAL oneof_index: 0 }
  oneof_decl { name: "data" } }
`

// tritonTypes maps the types of a configuration to those of the protocol, and to the bytes of a value; of a text it is the length before it.
var tritonTypes = map[string]struct {
	name  string
	width int
}{
	"TYPE_BOOL": {"BOOL", 1}, "TYPE_UINT8": {"UINT8", 1}, "TYPE_UINT16": {"UINT16", 2}, "TYPE_UINT32": {"UINT32", 4}, "TYPE_UINT64": {"UINT64", 8},
	"TYPE_INT8": {"INT8", 1}, "TYPE_INT16": {"INT16", 2}, "TYPE_INT32": {"INT32", 4}, "TYPE_INT64": {"INT64", 8},
	"TYPE_FP16": {"FP16", 2}, "TYPE_BF16": {"BF16", 2}, "TYPE_FP32": {"FP32", 4}, "TYPE_FP64": {"FP64", 8}, "TYPE_STRING": {"BYTES", 4},
}

// tritonInput is one input of a warm-up request.
type tritonInput struct {
	name, datatype string
	random         bool
	file           string
	dims           []int64
}

// ImportTriton reads the model_warmup of a model's config.pbtxt, with the files in the folder "warmup" beside it, and writes the requests as lines for a step
// replay. They go through the server's front end and its batcher, which its own warm-up leaves out. It returns how many there are.
func ImportTriton(to io.Writer, path string) (int, error) {
	file, err := os.Open(path) //nolint:gosec // whoever imports says which file
	if err != nil {
		return 0, fmt.Errorf("import: %w", err)
	}
	defer file.Close() //nolint:errcheck // it was only read
	text, err := io.ReadAll(io.LimitReader(file, importConfig+1))
	switch {
	case err != nil:
		return 0, fmt.Errorf("import: %w", err)
	case len(text) > importConfig:
		return 0, fmt.Errorf("import: %s is longer than %d bytes", path, importConfig)
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return 0, fmt.Errorf("import: %w", err)
	}
	count, err := importTriton(to, text, filepath.Dir(absolute), importTotal)
	if err != nil {
		return count, fmt.Errorf("import %s: %w", path, err)
	}

	return count, nil
}

// importTriton writes the requests of a configuration whose model lies in dir, of at most room bytes together.
func importTriton(to io.Writer, text []byte, dir string, room int) (int, error) {
	config, err := parseTriton(text)
	if err != nil {
		return 0, err
	}
	model := field(config, "name").String()
	if model == "" {
		model = filepath.Base(dir) // where a repository's names come from
	}
	random := rand.New(rand.NewPCG(goldenSeed, goldenSeed)) //nolint:gosec // the same file makes the same requests
	samples := field(config, "model_warmup").List()
	written := 0
	for i := range samples.Len() {
		sample := samples.Get(i).Message()
		batch := field(sample, "batch_size").Uint()
		if batch == 0 {
			continue // as Triton does
		}
		if field(config, "max_batch_size").Int() <= 0 {
			if batch > 1 {
				return written, fmt.Errorf("model_warmup[%d]: batch_size is %d, and max_batch_size 0", i, batch)
			}
			batch = 0 // the dims are whole
		}
		count := max(field(sample, "count").Uint(), 1)
		if count > uint64(importRequests-written) {
			return written, fmt.Errorf("model_warmup[%d]: more than %d requests", i, importRequests)
		}
		for left := int(count); left > 0; left-- { //nolint:gosec // at most importRequests
			line, err := tritonRequest(model, sample, int64(min(batch, math.MaxInt32)), dir, random, min(importBody, room))
			if err != nil {
				return written, fmt.Errorf("model_warmup[%d]: %w", i, err)
			}
			if left*len(line.Base64) > room { // those of one entry are of one length, so that none is made in vain
				return written, fmt.Errorf("model_warmup[%d]: the requests exceed the %d bytes that are left for them", i, room)
			}
			if err := json.NewEncoder(to).Encode(line); err != nil {
				return written, err
			}
			room -= len(line.Base64)
			written++
		}
	}
	if written == 0 {
		return 0, errors.New("it holds no model_warmup with a batch_size of at least 1")
	}

	return written, nil
}

// parseTriton reads a configuration; what is not described here is left out.
func parseTriton(text []byte) (protoreflect.Message, error) {
	described := &descriptorpb.FileDescriptorProto{}
	if err := prototext.Unmarshal([]byte(tritonSchema), described); err != nil {
		return nil, err
	}
	schema, err := protodesc.NewFile(described, nil)
	if err != nil {
		return nil, err
	}
	config := dynamicpb.NewMessage(schema.Messages().ByName("Config"))
	if err := (prototext.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(text, config); err != nil {
		return nil, fmt.Errorf("read model configuration: %w", err)
	}

	return config, nil
}

func field(message protoreflect.Message, name protoreflect.Name) protoreflect.Value {
	return message.Get(message.Descriptor().Fields().ByName(name))
}

// tritonRequest makes one request with at most limit bytes of tensors, in binary form, in which every type and value of a file stays as it is.
func tritonRequest(model string, sample protoreflect.Message, batch int64, dir string, random *rand.Rand, limit int) (recorded, error) {
	inputs, err := tritonInputs(sample)
	if err != nil {
		return recorded{}, err
	}
	type tensor struct {
		Name       string         `json:"name"`
		Shape      []int64        `json:"shape"`
		Datatype   string         `json:"datatype"`
		Parameters map[string]int `json:"parameters"`
	}
	var head struct {
		Inputs []tensor `json:"inputs"`
	}
	var data []byte
	for _, input := range inputs {
		shape := input.dims
		if batch > 0 {
			shape = append([]int64{batch}, shape...)
		}
		content, err := input.content(max(batch, 1), dir, random, limit-len(data))
		if err != nil {
			return recorded{}, fmt.Errorf("input %q: %w", input.name, err)
		}
		data = append(data, content...)
		head.Inputs = append(head.Inputs, tensor{input.name, shape, tritonTypes[input.datatype].name, map[string]int{"binary_data_size": len(content)}})
	}
	body, err := json.Marshal(head)
	if err != nil {
		return recorded{}, err
	}

	return recorded{
		Path: "/v2/models/" + url.PathEscape(model) + "/infer", Base64: append(body, data...),
		Headers: map[string]string{"Content-Type": "application/octet-stream", "Inference-Header-Content-Length": strconv.Itoa(len(body))},
	}, nil
}

// tritonInputs lists the inputs of a request in the order of their names.
func tritonInputs(sample protoreflect.Message) (inputs []tritonInput, err error) {
	field(sample, "inputs").Map().Range(func(key protoreflect.MapKey, value protoreflect.Value) bool {
		message := value.Message()
		kinds := field(message, "data_type")
		input := tritonInput{name: key.String(), random: field(message, "random_data").Bool(), file: field(message, "input_data_file").String(), dims: []int64{}}
		if named := message.Descriptor().Fields().ByName("data_type").Enum().Values().ByNumber(kinds.Enum()); named != nil {
			input.datatype = string(named.Name())
		}
		for i := range field(message, "dims").List().Len() {
			input.dims = append(input.dims, field(message, "dims").List().Get(i).Int())
		}
		switch {
		case tritonTypes[input.datatype].width == 0:
			err = fmt.Errorf("input %q: data_type is %q, for which no value is known", input.name, input.datatype)
		case slices.ContainsFunc(input.dims, func(n int64) bool { return n < 1 }):
			err = fmt.Errorf("input %q: dims are %v, expected sizes of at least 1", input.name, input.dims)
		case input.file == "" && !input.random && !field(message, "zero_data").Bool():
			err = fmt.Errorf("input %q: expected one of zero_data, random_data and input_data_file", input.name)
		}
		inputs = append(inputs, input)

		return err == nil
	})
	slices.SortFunc(inputs, func(a, b tritonInput) int {
		if a.name < b.name {
			return -1
		}

		return 1
	})
	if err == nil && len(inputs) == 0 {
		err = errors.New("it has no inputs")
	}

	return inputs, err
}

// content returns the values of a batch, of at most limit bytes.
func (i tritonInput) content(batch int64, dir string, random *rand.Rand, limit int) ([]byte, error) {
	count := batch
	width := tritonTypes[i.datatype].width
	for _, n := range append([]int64{int64(width)}, i.dims...) {
		if count > int64(limit)/n {
			return nil, fmt.Errorf("a batch of %d of %v exceeds the %d bytes that are left of a request", batch, i.dims, limit)
		}
		count *= n
	}
	if i.file != "" {
		return i.fromFile(batch, dir, int(count), limit)
	}
	data := make([]byte, count)
	if i.random && i.datatype != "TYPE_STRING" { // random texts are empty ones for Triton, too
		for at := 0; at < len(data); at += width {
			i.randomValue(data[at:at+width], random)
		}
	}

	return data, nil
}

// fromFile reads one sample's values, and repeats them for each of a batch, as Triton does.
func (i tritonInput) fromFile(batch int64, dir string, size, limit int) ([]byte, error) {
	if !filepath.IsLocal(i.file) {
		return nil, fmt.Errorf("input_data_file is %q, expected a file in the folder warmup", i.file)
	}
	file, err := os.Open(filepath.Join(dir, "warmup", i.file)) //nolint:gosec // a local path, as just checked
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // it was only read
	one, err := io.ReadAll(io.LimitReader(file, int64(limit)+1))
	switch {
	case err != nil:
		return nil, err
	case int64(len(one)) > int64(limit)/batch:
		return nil, fmt.Errorf("%d times %s exceeds the %d bytes that are left of a request", batch, i.file, limit)
	case i.datatype != "TYPE_STRING" && int64(len(one))*batch != int64(size):
		return nil, fmt.Errorf("%s holds %d bytes, its dims %v say %d", i.file, len(one), i.dims, int64(size)/batch)
	}

	return slices.Repeat(one, int(batch)), nil
}

// randomValue writes a value that means something to any model, where raw random bits would be NaN, infinite or out of a vocabulary: numbers with a fraction
// are in [0,1), bytes anything, other whole numbers 0 or 1.
func (i tritonInput) randomValue(to []byte, random *rand.Rand) {
	switch i.datatype {
	case "TYPE_UINT8":
		to[0] = byte(random.IntN(256)) //nolint:gosec // below 256
	case "TYPE_FP16":
		binary.LittleEndian.PutUint16(to, 0x3800|uint16(random.IntN(1<<10))) //nolint:gosec // ten bits: 0.5 to 1
	case "TYPE_BF16":
		binary.LittleEndian.PutUint16(to, 0x3f00|uint16(random.IntN(1<<7))) //nolint:gosec // seven bits: 0.5 to 1
	case "TYPE_FP32":
		binary.LittleEndian.PutUint32(to, math.Float32bits(random.Float32()))
	case "TYPE_FP64":
		binary.LittleEndian.PutUint64(to, math.Float64bits(random.Float64()))
	default:
		to[0] = byte(random.IntN(2)) //nolint:gosec // below 2
	}
}
