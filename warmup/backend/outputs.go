package backend

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
)

// output is one tensor of an answer, whichever way it came.
type output struct {
	Name     string          `json:"name"`
	Datatype string          `json:"datatype"`
	Shape    []int64         `json:"shape"`
	Data     json.RawMessage `json:"data"`
}

// readOutputs takes the tensors of an answer in JSON apart.
func readOutputs(read content) ([]output, error) {
	var body struct {
		Outputs []output `json:"outputs"`
	}
	if err := json.Unmarshal(read.body, &body); err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	if len(body.Outputs) == 0 {
		return nil, errors.New("the answer holds no outputs")
	}

	return body.Outputs, nil
}

// values returns every value of the tensor in order: numbers as float64, texts and booleans as they are.
func (o output) values() ([]any, error) {
	var nested any
	if err := json.NewDecoder(bytes.NewReader(o.Data)).Decode(&nested); err != nil {
		return nil, fmt.Errorf("read output %q: %w", o.Name, err)
	}

	return flat(nil, nested), nil
}

// flat appends the values of lists within lists: servers may write a tensor either way.
func flat(values []any, nested any) []any {
	list, ok := nested.([]any)
	if !ok {
		return append(values, nested)
	}
	for _, inner := range list {
		values = flat(values, inner)
	}

	return values
}

// Compare implements [Comparer]: every output of the reference must be in the answer, of the same shape and with the same values; others may be there, too.
func (o *OIP) Compare(act string, answer, reference Answer, tolerance float64) error {
	answer, err := translated(act, answer)
	if err == nil {
		err = compareOutputs(answer, reference, tolerance)
	}
	if err != nil {
		return &Error{Act: act, Kind: ErrBadAnswer, Err: fmt.Errorf("compare with the reference: %w", err)}
	}

	return nil
}

func compareOutputs(answer, reference Answer, tolerance float64) error {
	if reference.Status != http.StatusOK {
		return fmt.Errorf("it answers the same request with status %d: %q", reference.Status, excerpt(reference.Body))
	}
	expected, err := readOutputs(newContent(reference))
	if err != nil {
		return fmt.Errorf("its answer: %w", err)
	}
	got, err := readOutputs(newContent(answer))
	if err != nil {
		return err
	}
	for _, want := range expected {
		at := slices.IndexFunc(got, func(o output) bool { return o.Name == want.Name })
		if at < 0 {
			return fmt.Errorf("output %q is expected, and the answer has none of that name", want.Name)
		}
		if err := want.agrees(got[at], tolerance); err != nil {
			return err
		}
	}

	return nil
}

// agrees says where got differs from the output that was expected.
func (o output) agrees(got output, tolerance float64) error {
	if o.Shape != nil && got.Shape != nil && !slices.Equal(o.Shape, got.Shape) {
		return fmt.Errorf("output %q: expected shape %v, got %v", o.Name, o.Shape, got.Shape)
	}
	expected, err := o.values()
	if err != nil {
		return err
	}
	values, err := got.values()
	if err != nil {
		return err
	}
	if len(expected) != len(values) {
		return fmt.Errorf("output %q: expected %d values, got %d", o.Name, len(expected), len(values))
	}
	for i, want := range expected {
		if !near(want, values[i], tolerance) {
			return fmt.Errorf("output %q at %d: expected %s, got %s, tolerance %v", o.Name, i, excerpt([]byte(plain(want))), excerpt([]byte(plain(values[i]))), tolerance)
		}
	}

	return nil
}

// near says whether two values are: numbers within the tolerance, which is relative to the one expected, and absolute below 1.
func near(want, got any, tolerance float64) bool {
	expected, isNumber := want.(float64)
	if !isNumber {
		return want == got
	}
	number, ok := got.(float64)

	return ok && math.Abs(number-expected) <= tolerance*max(1, math.Abs(expected))
}
