package backend

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
)

// Check implements [Dialect]: the status, no error object inside a 200, every output of as many elements as its shape says, all finite.
func (o *OIP) Check(act string, answer Answer, expect Expect) error {
	if speaksGRPC(answer) {
		expect.Status = 0 // of an answer over gRPC it is always the same
	}
	answer, err := translated(act, answer)
	if err != nil {
		return err
	}

	return expect.judge(act, answer, func(read content) error { return checkOutputs(read, expect.Finite) })
}

func checkOutputs(read content, finite bool) error {
	outputs, err := readOutputs(read)
	if err != nil {
		return err
	}
	for _, output := range outputs {
		count, problem := leaves(output.Data, read.odd)
		if problem != "" && finite {
			return fmt.Errorf("output %q holds %s", output.Name, problem)
		}
		if output.Shape == nil {
			continue
		}
		if expected := elements(output.Shape); int64(count) != expected {
			return fmt.Errorf("output %q holds %d elements, its shape %v says %d", output.Name, count, output.Shape, expected)
		}
	}

	return nil
}

// inferred is the error for an answer to an inference that has not the expected status.
func inferred(act string, answer Answer) error {
	failed := &Error{Act: act, Kind: ErrBadAnswer, Status: answer.Status, Excerpt: excerpt(answer.Body)}
	switch answer.Status {
	case http.StatusUnauthorized, http.StatusForbidden:
		failed.Kind = ErrCredentialsRefused
	case http.StatusTooManyRequests, http.StatusServiceUnavailable, 529: // TGI and others say by 529 that they are overloaded
		failed.Kind = ErrBusy
	case http.StatusNotFound:
		failed.Kind = ErrNotYet
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		failed.Kind = ErrRequestRefused
	}

	return failed
}

// oddNumbers are tokens that are no JSON, and that servers write all the same for values that are no numbers.
var oddNumbers = []string{"-Infinity", "-infinity", "Infinity", "infinity", "-NaN", "NaN", "-nan", "nan", "-inf", "inf", "-Inf", "Inf"}

// oddMark stands before an odd number once it is quoted, so that no text of the server's can be taken for one.
const oddMark = "\x01"

// quoteOddNumbers makes JSON of an answer that holds NaN or infinities, as marked strings, and says whether there were any.
func quoteOddNumbers(body []byte) ([]byte, bool) {
	var out []byte
	copied := 0
	inString := false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case !inString && (c == 'N' || c == 'n' || c == 'I' || c == 'i' || c == '-'):
			token := oddNumberAt(body[i:])
			if token == "" {
				continue
			}
			out = append(out, body[copied:i]...)
			out = append(out, `"\u0001`...)
			out = append(out, token...)
			out = append(out, '"')
			i += len(token) - 1
			copied = i + 1
		}
	}
	if copied == 0 {
		return body, false
	}

	return append(out, body[copied:]...), true
}

func oddNumberAt(rest []byte) string {
	for _, token := range oddNumbers {
		if bytes.HasPrefix(rest, []byte(token)) {
			return token
		}
	}

	return ""
}

// leaves counts the values in data, nested or flat, and names the first that is no finite number; null is how some servers write those.
func leaves(data json.RawMessage, odd bool) (count int, problem string) {
	for i := 0; i < len(data); {
		switch c := data[i]; c {
		case '[', ']', ',', ' ', '\t', '\r', '\n':
			i++
		case '"':
			end := stringEnd(data[i:])
			if odd && problem == "" {
				var text string
				if json.Unmarshal(data[i:i+end], &text) == nil && len(text) > 1 && text[:1] == oddMark {
					problem = text[1:]
				}
			}
			count++
			i += end
		default:
			end := i
			for end < len(data) && !strings.ContainsRune(",] \t\r\n", rune(data[end])) {
				end++
			}
			if problem == "" {
				problem = notFinite(data[i:end])
			}
			count++
			i = max(end, i+1)
		}
	}

	return count, problem
}

// stringEnd returns the length of the JSON string that s begins with.
func stringEnd(s []byte) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}

	return len(s)
}

func notFinite(token []byte) string {
	switch string(token) {
	case "null":
		return "null"
	case "true", "false":
		return ""
	}
	// Only an exponent, or very many digits, can leave the range of a double.
	if bytes.ContainsAny(token, "eE") || len(token) > 300 {
		if value, err := strconv.ParseFloat(string(token), 64); err != nil || math.IsInf(value, 0) {
			return string(token[:min(len(token), 20)])
		}
	}

	return ""
}

func appendQuoted(body []byte, text string) []byte {
	quoted, err := json.Marshal(text)
	if err != nil {
		// A string always has a JSON form.
		return append(body, `""`...)
	}

	return append(body, quoted...)
}
