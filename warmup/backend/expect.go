package backend

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// Expect says what a good answer to an inference looks like.
type Expect struct {
	// Status is the HTTP status; 0 means 200.
	Status int
	// Finite refuses NaN and infinities in the outputs.
	Finite bool
	// JSON maps paths in the answer, such as "outputs.0.datatype", to the values that must stand there. Of a stream the last event counts.
	JSON map[string]string
	// Equals is an answer to compare with: every key of it must be in the answer, with numbers that are the same within Tolerance. What is no JSON
	// must be the same byte for byte. Nil: not compared.
	Equals []byte
	// Tolerance is relative to the expected number, and absolute below 1.
	Tolerance float64
}

// judge is what every server type's Check consists of: the status, no error object inside a 200, what look says of a good body, then what the user
// expects. body has its odd numbers quoted; odd says that there were any.
func (e Expect) judge(act string, answer Answer, look func(content content) error) error {
	want := e.Status
	if want == 0 {
		want = http.StatusOK
	}
	if answer.Status != want {
		return inferred(act, answer)
	}
	bad := func(err error) error {
		return &Error{Act: act, Kind: ErrBadAnswer, Status: answer.Status, Excerpt: excerpt(answer.Body), Err: err}
	}
	if answer.Truncated {
		return bad(fmt.Errorf("the answer is longer than %d bytes", len(answer.Body)))
	}
	read := newContent(answer)
	if want == http.StatusOK {
		if failed := read.failed(); failed != nil {
			return &Error{Act: act, Kind: ErrBadAnswer, Status: answer.Status, Excerpt: excerpt(failed), Err: errors.New("the answer holds an error")}
		}
		if err := look(read); err != nil {
			return bad(err)
		}
	}
	if err := e.compare(read); err != nil {
		return bad(err)
	}

	return nil
}

// compare holds the answer against what the user expects.
func (e Expect) compare(read content) error {
	if len(e.JSON) == 0 && e.Equals == nil {
		return nil
	}
	var got any
	decodes := json.Unmarshal(read.last(), &got) == nil
	for _, path := range slices.Sorted(maps.Keys(e.JSON)) {
		value, found := at(got, path)
		if !decodes || !found {
			return fmt.Errorf("expected %s at %s, found nothing there", e.JSON[path], path)
		}
		if text := plain(value); text != e.JSON[path] {
			return fmt.Errorf("expected %s at %s, got %s", e.JSON[path], path, text)
		}
	}
	if e.Equals == nil {
		return nil
	}
	var golden any
	if json.Unmarshal(e.Equals, &golden) != nil {
		if !bytes.Equal(bytes.TrimSpace(e.Equals), bytes.TrimSpace(read.body)) {
			return errors.New("the answer differs from the one that was expected")
		}

		return nil
	}

	return agrees(golden, got, "", e.Tolerance)
}

// at walks a path of keys and indexes, joined by dots.
func at(value any, path string) (any, bool) {
	for part := range strings.SplitSeq(path, ".") {
		switch inner := value.(type) {
		case map[string]any:
			found, ok := inner[part]
			if !ok {
				return nil, false
			}
			value = found
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(inner) {
				return nil, false
			}
			value = inner[i]
		default:
			return nil, false
		}
	}

	return value, true
}

// plain is a value as somebody would write it in a configuration.
func plain(value any) string {
	if text, ok := value.(string); ok {
		return text
	}
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}

	return string(text)
}

// agrees says where got differs from golden. Keys that golden leaves out may hold anything: ids and times are no part of an answer's meaning.
func agrees(golden, got any, path string, tolerance float64) error {
	differs := func() error {
		return fmt.Errorf("expected %s at %s, got %s", excerpt([]byte(plain(golden))), orRoot(path), excerpt([]byte(plain(got))))
	}
	switch want := golden.(type) {
	case map[string]any:
		inner, ok := got.(map[string]any)
		if !ok {
			return differs()
		}
		for _, key := range slices.Sorted(maps.Keys(want)) {
			if err := agrees(want[key], inner[key], join(path, key), tolerance); err != nil {
				return err
			}
		}
	case []any:
		inner, ok := got.([]any)
		if !ok || len(inner) != len(want) {
			return differs()
		}
		for i := range want {
			if err := agrees(want[i], inner[i], join(path, strconv.Itoa(i)), tolerance); err != nil {
				return err
			}
		}
	default:
		if !near(golden, got, tolerance) {
			return differs()
		}
	}

	return nil
}

func join(path, part string) string {
	if path == "" {
		return part
	}

	return path + "." + part
}

func orRoot(path string) string {
	if path == "" {
		return "the top"
	}

	return path
}
