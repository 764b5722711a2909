package digits

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Body returns an Open Inference Protocol request over HTTP that classifies the images with these indexes of [Images]. The
// indexes have to be valid.
func Body(indexes ...int) []byte {
	type tensor struct {
		Name     string    `json:"name"`
		Datatype string    `json:"datatype"`
		Shape    []int     `json:"shape"`
		Data     []float32 `json:"data"`
	}
	chosen := make([]Image, len(indexes))
	for i, index := range indexes {
		chosen[i] = images()[index]
	}
	body, err := json.Marshal(map[string][]tensor{"inputs": {{
		Name: Input, Datatype: "FP32", Shape: []int{len(chosen), 1, Side, Side}, Data: Tensor(chosen...),
	}}})
	if err != nil {
		return nil // not possible: every value is a finite number
	}

	return body
}

// ReadAnswer reads an Open Inference Protocol answer over HTTP. It returns the digits found as [FormatAnswer] writes them.
func ReadAnswer(body []byte) (string, error) {
	var answer struct {
		Error   string `json:"error"`
		Outputs []struct {
			Name  string    `json:"name"`
			Shape []int     `json:"shape"`
			Data  []float32 `json:"data"`
		} `json:"outputs"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return "", fmt.Errorf("read answer: %w", err)
	}
	if answer.Error != "" {
		return "", fmt.Errorf("read answer: %s", answer.Error)
	}
	for _, output := range answer.Outputs {
		if output.Name != Output {
			continue
		}
		if len(output.Shape) != 2 || output.Shape[1] != 10 || output.Shape[0]*10 != len(output.Data) {
			return "", fmt.Errorf("read answer: expected 10 scores an image, got %d of shape %v", len(output.Data), output.Shape)
		}

		return FormatAnswer(Answers(output.Data)), nil
	}

	return "", errors.New("read answer: it has no " + Output)
}

// FormatAnswer writes the digits found in a batch, in order, parted by spaces.
func FormatAnswer(digits []int) string {
	words := make([]string, len(digits))
	for i, digit := range digits {
		words[i] = strconv.Itoa(digit)
	}

	return strings.Join(words, " ")
}

// ParseAnswer undoes [FormatAnswer].
func ParseAnswer(text string) ([]int, error) {
	words := strings.Fields(text)
	digits := make([]int, len(words))
	for i, word := range words {
		digit, err := strconv.Atoi(word)
		if err != nil || digit < 0 || digit > 9 {
			return nil, fmt.Errorf("parse answer %q: expected digits", text)
		}
		digits[i] = digit
	}

	return digits, nil
}
