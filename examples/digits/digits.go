package digits

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"slices"
	"sync"
)

// Side is the height and width of an image in pixels.
const Side = 8

// Names of the model's only input, float32 [batch,1,8,8] of values 0 to 1, and of its only output, float32 [batch,10]: a
// probability for each digit.
const (
	Input  = "image"
	Output = "scores"
)

var (
	//go:embed model.onnx
	model []byte
	//go:embed images/*.png
	pictures embed.FS
	//go:embed labels.json
	labels []byte
)

// Image is one of the held-out images: two of each digit, the first two in the order of the held-out split, whether the
// model gets them right or not.
type Image struct {
	// Name is the path of the PNG in this folder.
	Name string
	// Pixels holds the ink of each pixel, row by row, 0 (none) to 16.
	Pixels [Side * Side]uint8
	// Digit is what the writer meant.
	Digit int
	// Answer is what the model said when it was trained. It differs from Digit where the model is wrong.
	Answer int
}

// Model returns the classifier as an ONNX file. The caller may change the copy.
func Model() []byte { return bytes.Clone(model) }

// Images returns the 20 held-out images in a fixed order.
func Images() []Image { return slices.Clone(images()) }

// Labels returns what the writers meant, image by image.
func Labels() []int {
	digits := make([]int, 0, len(images()))
	for _, one := range images() {
		digits = append(digits, one.Digit)
	}

	return digits
}

// images decodes what is embedded, once. A test sees to it that it can be decoded.
var images = sync.OnceValue(func() []Image {
	var list []struct {
		Image  string `json:"image"`
		Digit  int    `json:"digit"`
		Answer int    `json:"answer"`
	}
	if err := json.Unmarshal(labels, &list); err != nil {
		return nil
	}
	decoded := make([]Image, len(list))
	for i, label := range list {
		pixels, err := decode(label.Image)
		if err != nil {
			return nil
		}
		decoded[i] = Image{Name: label.Image, Pixels: pixels, Digit: label.Digit, Answer: label.Answer}
	}

	return decoded
})

// decode undoes the scaling that train.py documents: a gray value p stands for round(p * 16 / 255).
func decode(name string) (pixels [Side * Side]uint8, err error) {
	content, err := pictures.ReadFile(name)
	if err != nil {
		return pixels, err
	}
	decoded, err := png.Decode(bytes.NewReader(content))
	if err != nil {
		return pixels, err
	}
	gray, ok := decoded.(*image.Gray)
	if !ok || gray.Rect.Dx() != Side || gray.Rect.Dy() != Side {
		return pixels, fmt.Errorf("expected %dx%d gray, got %T %v", Side, Side, decoded, decoded.Bounds())
	}
	for i := range pixels {
		p := int(gray.Pix[i/Side*gray.Stride+i%Side])
		pixels[i] = uint8((p*16 + 127) / 255) //nolint:gosec // at most 16
	}

	return pixels, nil
}

// Tensor returns the images as the model's input, in order: len(images) x 1 x 8 x 8 values.
func Tensor(images ...Image) []float32 {
	values := make([]float32, 0, len(images)*Side*Side)
	for _, one := range images {
		for _, ink := range one.Pixels {
			values = append(values, float32(ink)/16)
		}
	}

	return values
}

// Answers returns the digit with the highest score for each image, given the model's output for a whole batch.
func Answers(scores []float32) []int {
	answers := make([]int, 0, len(scores)/10)
	for ; len(scores) >= 10; scores = scores[10:] {
		best := 0
		for digit, score := range scores[:10] {
			if score > scores[best] {
				best = digit
			}
		}
		answers = append(answers, best)
	}

	return answers
}
