package onnx

import (
	"encoding/json"
	"fmt"
)

// parseValues reads the "data" of a JSON tensor: one flat list, or lists of lists as the shape says, row by row. data has to
// be valid JSON already. Whole numbers never pass through a float64, so 64-bit ones stay exact.
func parseValues(data json.RawMessage, datatype Datatype, shape []int64, count int64) (any, error) {
	r := valueReader{data: data, shape: shape, left: count, count: count}
	var values func() any
	// An element takes two bytes at least: what a request claims does not make us allocate more than it sent.
	r.add, values = codecs[datatype].parse(int(min(count, int64(len(data)/2+1))))
	if r.peek() != '[' {
		return nil, fmt.Errorf("expected a list, got %s", shorten(data))
	}
	// The first element tells flat from nested.
	at := r.at
	r.at++
	nested := r.peek() == '['
	r.at = at
	var err error
	if nested {
		err = r.list(0)
	} else {
		err = r.list(len(shape) - 1)
	}
	if err != nil {
		return nil, err
	}
	if r.left != 0 {
		return nil, fmt.Errorf("expected %d elements, got %d", count, count-r.left)
	}

	return values(), nil
}

// valueReader walks over valid JSON.
type valueReader struct {
	data        []byte
	at          int
	shape       []int64
	left, count int64
	add         func(token []byte) error
}

// list reads the list of dimension depth. At the last dimension its elements are values; a flat list is read as one such list
// that holds every element.
func (r *valueReader) list(depth int) error {
	r.at++ // the bracket
	length := int64(0)
	for ; r.peek() != ']'; length++ {
		if r.data[r.at] == ',' {
			r.at++
		}
		if err := r.item(depth); err != nil {
			return err
		}
	}
	r.at++
	if nested := depth < len(r.shape)-1; nested && length != r.shape[depth] {
		return fmt.Errorf("expected %d lists in dimension %d, got %d", r.shape[depth], depth, length)
	}

	return nil
}

func (r *valueReader) item(depth int) error {
	first := r.peek()
	if depth < len(r.shape)-1 {
		if first != '[' {
			return fmt.Errorf("expected a list in dimension %d, got %s", depth+1, shorten(r.token()))
		}
		before := r.left
		if err := r.list(depth + 1); err != nil {
			return err
		}
		if row := r.shape[depth+1]; depth+1 == len(r.shape)-1 && before-r.left != row {
			return fmt.Errorf("expected %d elements in each list of dimension %d, got %d", row, depth+1, before-r.left)
		}

		return nil
	}
	if first == '[' || first == '{' {
		return fmt.Errorf("element %d: expected a value, got a list or an object", r.count-r.left)
	}
	if r.left == 0 {
		return fmt.Errorf("expected %d elements, got more", r.count)
	}
	r.left--

	return r.add(r.token())
}

// peek returns the next byte that is not space. It stays on it. At the end it returns the bracket that ends everything.
func (r *valueReader) peek() byte {
	for r.at < len(r.data) {
		switch c := r.data[r.at]; c {
		case ' ', '\t', '\n', '\r':
			r.at++
		default:
			return c
		}
	}

	return ']'
}

// token takes a number, a word or a string.
func (r *valueReader) token() []byte {
	start := r.at
	if r.data[start] == '"' {
		for r.at++; r.at < len(r.data) && r.data[r.at] != '"'; r.at++ {
			if r.data[r.at] == '\\' {
				r.at++
			}
		}
		r.at = min(r.at+1, len(r.data))

		return r.data[start:r.at]
	}
	for r.at < len(r.data) {
		switch r.data[r.at] {
		case ' ', '\t', '\n', '\r', ',', ']', '}', '[', '{':
			return r.data[start:max(r.at, min(start+1, len(r.data)))]
		default:
			r.at++
		}
	}

	return r.data[start:r.at]
}
