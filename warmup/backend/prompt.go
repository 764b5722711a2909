package backend

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"math/rand/v2"
	"net/http"
	"strings"
)

const (
	// repeatedSeed makes the prompt of shapes that repeat it.
	repeatedSeed = 1
	// pictureSize is the edge of the picture that goes with a prompt, in pixels.
	pictureSize = 32
	// tokenFrom and tokenTo bound the token ids that are sent where nobody says how large the vocabulary is. Special tokens, which could end a
	// prompt, lie below or far above in the vocabularies in use.
	tokenFrom, tokenTo = 1000, 20000
)

// prompt makes up what a language model is asked.
type prompt struct {
	shape  Shape
	model  Model
	random *rand.Rand
}

func newPrompt(model Model, shape Shape, seed uint64) prompt {
	if shape.Repeated {
		seed = repeatedSeed
	}

	return prompt{shape: shape, model: model, random: rand.New(rand.NewPCG(seed, 0x70696c6f746c6974))} //nolint:gosec // prompts need to differ, not to be secret
}

// text is of about as many tokens as the shape says: one letter and its space are one token to nearly every tokenizer. It differs from its first word
// on, so that no prefix cache has it.
func (p prompt) text() string {
	words := max(p.shape.InputTokens, 1)
	var text strings.Builder
	text.Grow(2 * words)
	for i := range words {
		if i > 0 {
			text.WriteByte(' ')
		}
		text.WriteByte(byte('a' + p.random.IntN(26))) //nolint:gosec // a letter
	}

	return text.String()
}

// tokens are exactly as many token ids as the shape says.
func (p prompt) tokens() []int {
	from, to := tokenFrom, tokenTo
	if n := p.model.Vocabulary; n > 0 && n < 2*tokenTo {
		// The middle half: both ends are where special tokens are kept.
		from, to = n/4, max(n*3/4, n/4+1)
	}
	ids := make([]int, max(p.shape.InputTokens, 1))
	for i := range ids {
		ids[i] = from + p.random.IntN(to-from)
	}

	return ids
}

// picture is a small PNG of random colours.
func (p prompt) picture() (string, error) {
	canvas := image.NewRGBA(image.Rect(0, 0, pictureSize, pictureSize))
	for i := range canvas.Pix {
		canvas.Pix[i] = byte(p.random.IntN(256)) //nolint:gosec // a byte
	}
	var coded bytes.Buffer
	if err := png.Encode(&coded, canvas); err != nil {
		return "", fmt.Errorf("draw picture: %w", err)
	}

	return base64.StdEncoding.EncodeToString(coded.Bytes()), nil
}

// name is the model that is asked: the adapter, where the shape has one.
func (p prompt) name() string {
	if p.shape.Adapter != "" {
		return p.shape.Adapter
	}

	return p.model.Name
}

// post is a request with a JSON body.
func post(path string, streams bool, body any) (Request, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return Request{}, fmt.Errorf("make request for %s: %w", path, err)
	}

	return Request{Method: http.MethodPost, Path: path, Body: text, Streams: streams}, nil
}

// unfit is the error of a shape that a server type cannot ask for.
func unfit(model Model, shape Shape, because string) error {
	return &Error{Act: fmt.Sprintf("make a request of %v for %s", shape, model.Name), Kind: ErrNoRequest, Err: fmt.Errorf("%w: %s", ErrNoRequest, because)}
}

func refusal(model Model, shape Shape) error {
	if model.NoRequest == "" {
		return nil
	}

	return unfit(model, shape, model.NoRequest)
}
