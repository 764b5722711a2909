package onnx

import (
	"slices"
	"strconv"
	"strings"
)

// request is an inference asked for, whichever way it came.
type request struct {
	id string
	// inputs are in the order of the model's signature.
	inputs []tensor
	// outputs are the names asked for; none asks for all.
	outputs []string
}

// gather collects the inputs of a request and checks them against what the model takes.
type gather struct {
	signature signature
	inputs    []tensor
	seen      []bool
	sizes     map[string]namedSize
}

// namedSize is the size that a named dimension has got by an input.
type namedSize struct {
	size  int64
	input string
}

func newGather(s signature) *gather {
	return &gather{signature: s, inputs: make([]tensor, len(s.inputs)), seen: make([]bool, len(s.inputs)), sizes: map[string]namedSize{}}
}

// place checks an input's head. It returns where its values go and how many there have to be.
func (g *gather) place(name, datatype string, shape []int64) (slot *tensor, count int64, err error) {
	i := slices.IndexFunc(g.signature.inputs, func(info tensorInfo) bool { return info.name == name })
	if i < 0 {
		return nil, 0, faultf(invalid, "input %q: no such input, expected %s", shorten([]byte(name)), names(g.signature.inputs))
	}
	if g.seen[i] {
		return nil, 0, faultf(invalid, "input %q: expected once, got it twice", name)
	}
	g.seen[i] = true
	info := g.signature.inputs[i]
	if datatype != info.datatype.String() {
		return nil, 0, faultf(invalid, "input %q: expected datatype %s, got %q", name, info.datatype, shorten([]byte(datatype)))
	}
	count, err = elements(shape)
	if err != nil {
		return nil, 0, faultf(invalid, "input %q: %v", name, err)
	}
	if err := g.fits(info, shape); err != nil {
		return nil, 0, err
	}
	g.inputs[i] = tensor{name: name, datatype: info.datatype, shape: shape}

	return &g.inputs[i], count, nil
}

// fits compares a shape with the model's, and named dimensions with those of inputs that came before.
func (g *gather) fits(info tensorInfo, shape []int64) error {
	if !info.ranked {
		return nil
	}
	if len(shape) != len(info.shape) {
		return faultf(invalid, "input %q: expected shape %v, got %v", info.name, info.shape, shape)
	}
	for i, dim := range info.shape {
		if dim >= 0 && dim != shape[i] {
			return faultf(invalid, "input %q: expected shape %v, got %v", info.name, info.shape, shape)
		}
		if dim >= 0 || info.names[i] == "" {
			continue
		}
		known, named := g.sizes[info.names[i]]
		if named && known.size != shape[i] {
			return faultf(invalid, "input %q: dimension %d: expected %d (%s, as in input %q), got %d",
				info.name, i, known.size, info.names[i], known.input, shape[i])
		}
		if !named {
			g.sizes[info.names[i]] = namedSize{size: shape[i], input: info.name}
		}
	}

	return nil
}

// complete says which inputs are missing.
func (g *gather) complete() ([]tensor, error) {
	for i, seen := range g.seen {
		if !seen {
			return nil, faultf(invalid, "input %q: missing, expected %s", g.signature.inputs[i].name, names(g.signature.inputs))
		}
	}

	return g.inputs, nil
}

// wanted checks the names of outputs that a request asks for.
func (s signature) wanted(outputs []string) error {
	for i, name := range outputs {
		if !slices.ContainsFunc(s.outputs, func(info tensorInfo) bool { return info.name == name }) {
			return faultf(invalid, "output %q: no such output, expected %s", shorten([]byte(name)), names(s.outputs))
		}
		if slices.Contains(outputs[:i], name) {
			return faultf(invalid, "output %q: expected once, got it twice", name)
		}
	}

	return nil
}

// pick returns the outputs that were asked for, in the order they were asked for.
func pick(all []tensor, wanted []string) []tensor {
	if len(wanted) == 0 {
		return all
	}
	picked := make([]tensor, 0, len(wanted))
	for _, name := range wanted {
		i := slices.IndexFunc(all, func(one tensor) bool { return one.name == name })
		if i >= 0 {
			picked = append(picked, all[i])
		}
	}

	return picked
}

// names lists names for an error.
func names(list []tensorInfo) string {
	quoted := make([]string, len(list))
	for i, info := range list {
		quoted[i] = strconv.Quote(info.name)
	}
	last := len(quoted) - 1
	if last < 1 {
		return strings.Join(quoted, "")
	}

	return strings.Join(quoted[:last], ", ") + " and " + quoted[last]
}
