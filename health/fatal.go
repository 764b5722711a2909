package health

import "strings"

// fatalTexts are what servers answer, in lower case, once the process cannot go on and only its restart helps: a CUDA context is poisoned by the first of these errors, and
// every later call fails with it. Being out of memory is none of them: that passes.
var fatalTexts = []string{
	"illegal memory access",
	"illegal_address",
	"cudaerrorillegaladdress",
	"device-side assert",
	"unspecified launch failure",
	"misaligned address",
	"uncorrectable ecc error",
	"enginedeaderror",
}

// IsFatal tells whether an answer to a request of our own says that the backend does not recover. Answers to users prove nothing: a language model repeats what it is told.
func IsFatal(text string) bool {
	text = strings.ToLower(text)
	for _, fatal := range fatalTexts {
		if strings.Contains(text, fatal) {
			return true
		}
	}

	return false
}
