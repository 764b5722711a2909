package onnx

import (
	"encoding/json"
	"errors"
	"strconv"
)

// decodeRequest reads the JSON body of an inference request and checks it against what the model takes. Every error is a
// fault that names the input, what was expected and what came.
func decodeRequest(body []byte, takes signature) (request, error) {
	var sent struct {
		ID     string `json:"id"`
		Inputs []struct {
			Name     string          `json:"name"`
			Datatype string          `json:"datatype"`
			Shape    []int64         `json:"shape"`
			Data     json.RawMessage `json:"data"`
		} `json:"inputs"`
		Outputs []struct {
			Name string `json:"name"`
		} `json:"outputs"`
	}
	if err := json.Unmarshal(body, &sent); err != nil {
		return request{}, malformed(err)
	}
	asked := request{id: sent.ID}
	for _, output := range sent.Outputs {
		asked.outputs = append(asked.outputs, output.Name)
	}
	if err := takes.wanted(asked.outputs); err != nil {
		return request{}, err
	}
	inputs := newGather(takes)
	for _, input := range sent.Inputs {
		if input.Shape == nil {
			return request{}, faultf(invalid, "input %q: expected a shape, got none", shorten([]byte(input.Name)))
		}
		slot, count, err := inputs.place(input.Name, input.Datatype, input.Shape)
		if err != nil {
			return request{}, err
		}
		if len(input.Data) == 0 {
			return request{}, faultf(invalid, "input %q: expected %d elements in data, got no data", input.Name, count)
		}
		slot.values, err = parseValues(input.Data, slot.datatype, slot.shape, count)
		if err != nil {
			return request{}, faultf(invalid, "input %q: data: %v", input.Name, err)
		}
	}
	var err error
	asked.inputs, err = inputs.complete()

	return asked, err
}

// malformed makes a fault of what encoding/json says, without the names of our types.
func malformed(err error) *fault {
	if kind, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		expected := "an object"
		switch kind.Type.Kind().String() {
		case "string":
			expected = "a string"
		case "int64":
			expected = "a whole number of 64 bits"
		case "slice":
			expected = "a list"
		}
		field := kind.Field
		if field == "" {
			field = "body"
		}

		return faultf(invalid, "%s: expected %s, got %s", field, expected, kind.Value)
	}

	return faultf(invalid, "body: expected JSON: %v", err)
}

// encodeResponse writes the JSON body of an answer. Data is flat, as the protocol prefers it.
func encodeResponse(name, id string, outputs []tensor) ([]byte, error) {
	quote := func(out []byte, text string) ([]byte, error) {
		quoted, err := json.Marshal(text)

		return append(out, quoted...), err
	}
	out, err := quote([]byte(`{"model_name":`), name)
	if err != nil {
		return nil, err
	}
	out = append(out, `,"model_version":"`+version+`"`...)
	if id != "" {
		if out, err = quote(append(out, `,"id":`...), id); err != nil {
			return nil, err
		}
	}
	out = append(out, `,"outputs":[`...)
	for i, one := range outputs {
		if i > 0 {
			out = append(out, ',')
		}
		if out, err = quote(append(out, `{"name":`...), one.name); err != nil {
			return nil, err
		}
		out = append(out, `,"datatype":"`+one.datatype.String()+`","shape":[`...)
		for axis, dim := range one.shape {
			if axis > 0 {
				out = append(out, ',')
			}
			out = strconv.AppendInt(out, dim, 10)
		}
		out = append(out, `],"data":[`...)
		if out, err = codecs[one.datatype].format(out, one.values); err != nil {
			return nil, faultf(internal, "output %q: %v", one.name, err)
		}
		out = append(out, `]}`...)
	}

	return append(out, `]}`...), nil
}
