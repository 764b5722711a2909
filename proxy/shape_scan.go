package proxy

import (
	"bytes"

	"github.com/pilotlight-proxy/pilotlight/circuit"
)

const (
	// scanLimit is how much of a body is looked at, in bytes: most requests, and of the rest what comes first.
	scanLimit = 64 << 10
	// scanDepth bounds how deeply nested values are told apart.
	scanDepth = 8
	// textPerToken is how many bytes of text are taken for one token.
	textPerToken = 4
	// grpcPrefix is what precedes a gRPC message: a flag and a length.
	grpcPrefix = 5
	// mostDigits of a number are read; what is longer is no length.
	mostDigits = 9
)

// scanField is what the value of a key says about a request.
type scanField uint8

const (
	fieldNone scanField = iota
	fieldModel
	fieldAdapter
	fieldText // or token ids, or a list of either
	fieldOutput
	fieldTemperature
	fieldStream
	fieldImage
	fieldDims
	fieldSamples
)

// fieldOf maps a key to what it says. Keys of settings may stand one level down, as in "parameters", those of content at any level.
func fieldOf(key []byte, depth int) scanField {
	switch string(key) { // no copy is made of it
	case "prompt", "input", "inputs", "text", "content", "input_ids":
		return fieldText
	case "image_url", "image", "images", "image_data":
		return fieldImage
	case "shape":
		return fieldDims
	case "model", "model_name":
		return only(fieldModel, depth == 1)
	case "adapter_id", "lora_path":
		return only(fieldAdapter, depth <= 2)
	case "max_tokens", "max_completion_tokens", "max_new_tokens", "n_predict", "num_predict":
		return only(fieldOutput, depth <= 2)
	case "temperature":
		return only(fieldTemperature, depth <= 2)
	case "stream":
		return only(fieldStream, depth == 1)
	case "instances":
		return only(fieldSamples, depth == 1)
	default:
		return fieldNone
	}
}

func only(field scanField, there bool) scanField {
	if there {
		return field
	}

	return fieldNone
}

// shapeScan finds the shape of a request in the bytes of its body as they pass. It looks at each byte once, keeps none of them but the names of the model and the
// adapter, and takes what it does not understand for nothing: it decides about no request. It is guarded by the lock of the body.
type shapeScan struct {
	found  RequestShape
	flight circuit.Exchange // is told the shape
	grpc   bool
	over   bool // nothing more is looked at
	odd    bool // it was no JSON
	seen   int

	depth  int
	fields [scanDepth]scanField // of the value that is read at each depth
	arrays uint16               // a bit for each depth that is an array
	key    bool                 // a string would be a key

	inString, escaped, inWord bool
	word                      [maxName + 1]byte // the beginning of a string or a number
	length                    int               // of the string

	text, tokens, samples, dims, elements int
	dimsDone                              bool
}

// begin starts a scan of a body to that path.
func (s *shapeScan) begin(path string, grpc bool) {
	s.found, s.grpc = pathShape(path), grpc
}

// see looks at the next bytes of the body.
func (s *shapeScan) see(piece []byte) {
	if s.over {
		return
	}
	piece = piece[:min(len(piece), scanLimit-s.seen)]
	first := s.seen == 0
	s.seen += len(piece)
	switch {
	case s.grpc && first:
		s.seeGRPC(piece)
	default:
		s.seeJSON(piece)
	}
	if s.seen >= scanLimit {
		s.over = true
	}
}

// seeGRPC reads the model's name from the first field of a message, where the Open Inference Protocol has it.
func (s *shapeScan) seeGRPC(piece []byte) {
	s.over = true
	if len(piece) > grpcPrefix+2 && piece[0] == 0 && piece[grpcPrefix] == 0x0a {
		if size, rest := int(piece[grpcPrefix+1]), piece[grpcPrefix+2:]; size <= maxName && size <= len(rest) {
			s.found.Model = string(rest[:size])
		}
	}
}

func (s *shapeScan) seeJSON(piece []byte) {
	for i := 0; i < len(piece) && !s.over; i++ {
		c := piece[i]
		switch {
		case s.inString:
			i += s.passString(piece[i:])
		case s.inWord && !endsWord(c):
			s.keep(c)
		default:
			s.endWord()
			s.structure(c)
			if s.inData() {
				s.inWord = false
				i += dataLength(piece[i+1:])
			}
		}
	}
}

// inData says that the values around here are those of a list of which nothing is wanted: the numbers of a tensor, most of all that many requests are made of.
func (s *shapeScan) inData() bool {
	return !s.inString && s.inArray() && s.field() == fieldNone
}

// dataLength is how many bytes there are before a list ends or something begins in it that is more than a word.
func dataLength(piece []byte) int {
	for _, c := range [...]byte{']', '[', '{', '}', '"'} {
		if end := bytes.IndexByte(piece, c); end >= 0 {
			piece = piece[:end]
		}
	}

	return len(piece)
}

func endsWord(c byte) bool {
	switch c {
	case ',', ']', '}', ' ', '\t', '\r', '\n':
		return true
	default:
		return false
	}
}

// passString takes what piece has of the string and returns how many bytes beyond the first that were.
func (s *shapeScan) passString(piece []byte) int {
	for passed := 0; ; passed++ { // of which the last is a backslash, or what follows one
		rest := piece[passed:]
		if s.escaped && len(rest) > 0 {
			s.escaped = false
			s.keep(rest[0])

			continue
		}
		end := textLength(rest)
		s.keepAll(rest[:end])
		passed += end
		if passed == len(piece) {
			return passed - 1
		}
		if piece[passed] == '"' {
			s.inString = false
			s.endString()

			return passed
		}
		s.escaped = true
	}
}

// textLength is how many bytes there are before a string ends or a backslash stands in it.
func textLength(piece []byte) int {
	for _, c := range [...]byte{'"', '\\'} {
		if end := bytes.IndexByte(piece, c); end >= 0 {
			piece = piece[:end]
		}
	}

	return len(piece)
}

func (s *shapeScan) keep(c byte) {
	if s.length < len(s.word) {
		s.word[s.length] = c
	}
	s.length++
}

func (s *shapeScan) keepAll(text []byte) {
	copy(s.word[min(s.length, len(s.word)):], text)
	s.length += len(text)
}

// structure takes a byte that is in no string and no word.
func (s *shapeScan) structure(c byte) {
	switch c {
	case ' ', '\t', '\r', '\n':
	case '{', '[':
		s.open(c == '[')
	case '}', ']':
		s.close()
	case ',':
		s.key = !s.inArray()
	case ':':
		s.key = false
	default:
		if s.depth == 0 {
			s.over, s.odd = true, true // every request that we know is an object

			return
		}
		s.length = 0
		s.inString, s.inWord = c == '"', c != '"'
		if s.inWord {
			s.keep(c)
		}
	}
}

func (s *shapeScan) inArray() bool {
	return s.depth > 0 && s.depth < scanDepth && s.arrays&(1<<s.depth) != 0
}

// field is what the value says that is read now.
func (s *shapeScan) field() scanField {
	if s.depth >= scanDepth {
		return fieldNone
	}

	return s.fields[s.depth]
}

func (s *shapeScan) open(array bool) {
	if s.depth == 0 && array {
		s.over, s.odd = true, true

		return
	}
	outer := s.field()
	if array {
		s.sample()
	} else if outer == fieldImage {
		s.found.Image = true
	}
	s.depth++
	s.key = !array
	if s.depth >= scanDepth {
		return
	}
	s.fields[s.depth] = fieldNone
	s.arrays &^= 1 << s.depth
	if array {
		s.arrays |= 1 << s.depth
		s.fields[s.depth] = outer
	}
}

func (s *shapeScan) close() {
	if s.field() == fieldDims && s.dims > 0 {
		s.dimsDone = true // that of the first tensor counts
	}
	s.depth--
	s.key = false
	s.over = s.depth <= 0
}

// sample counts a value that begins in a list of samples.
func (s *shapeScan) sample() {
	if s.depth == 2 && s.inArray() && (s.field() == fieldText || s.field() == fieldSamples) {
		s.samples++
	}
}

func (s *shapeScan) endString() {
	if s.key {
		if s.depth < scanDepth {
			s.fields[s.depth] = fieldOf(s.word[:min(s.length, len(s.word))], s.depth)
		}

		return
	}
	switch s.field() {
	case fieldText:
		s.sample()
		s.text += s.length
	case fieldImage:
		s.found.Image = true
	case fieldModel:
		if s.length <= maxName {
			s.found.Model = string(s.word[:s.length])
		}
	case fieldAdapter:
		if s.length <= maxName {
			s.found.Adapter = string(s.word[:s.length])
		}
	case fieldSamples:
		s.sample()
	case fieldNone, fieldOutput, fieldTemperature, fieldStream, fieldDims:
	}
}

// endWord takes the end of a number or a literal.
func (s *shapeScan) endWord() {
	if !s.inWord {
		return
	}
	s.inWord = false
	word := s.word[:min(s.length, len(s.word))]
	switch s.field() {
	case fieldText:
		s.tokens++
	case fieldOutput:
		s.found.Output = Bucket(wholeNumber(word))
	case fieldTemperature:
		s.found.Sampled = bytes.ContainsAny(word, "123456789")
	case fieldStream:
		s.found.Stream = s.found.Stream || word[0] == 't'
	case fieldDims:
		s.dim(wholeNumber(word))
	case fieldSamples:
		s.sample()
	case fieldNone, fieldModel, fieldAdapter, fieldImage:
	}
}

// dim takes the next dimension of a tensor: the first one of the first tensor is its batch.
func (s *shapeScan) dim(size int) {
	switch {
	case s.dimsDone:
		return
	case s.dims == 0:
		s.found.Batch, s.elements = Bucket(size), 1
	default:
		s.elements = min(s.elements*max(size, 1), 1<<30)
	}
	s.dims++
}

// wholeNumber reads a whole number; 0 for what is none.
func wholeNumber(word []byte) (n int) {
	if len(word) > mostDigits {
		return 0
	}
	for _, c := range word {
		if c < '0' || c > '9' {
			return 0
		}
		n = 10*n + int(c-'0')
	}

	return n
}

// shape is what was found. The zero shape: nothing by which requests can be told apart.
func (s *shapeScan) shape() RequestShape {
	if s.odd || s.seen == 0 {
		return RequestShape{}
	}
	found := s.found
	switch {
	case s.dims > 0:
		found.Input = Bucket(s.elements)
	case s.text > 0 || s.tokens > 0:
		found.Input = Bucket(((s.text+textPerToken-1)/textPerToken + s.tokens) / max(s.samples, 1))
		if s.samples > 1 {
			found.Batch = Bucket(s.samples)
		}
	case s.samples > 0:
		found.Batch = Bucket(s.samples)
	case found.Model == "":
		return RequestShape{}
	}

	return found
}
