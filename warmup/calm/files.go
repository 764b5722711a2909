package calm

import (
	"io/fs"
	"strconv"
	"strings"
)

// files reads what the kernel tells. A file that is not there, or says something else than expected, is as good as a measure that nobody takes: kernels and
// containers differ in what they show.
type files struct{ root fs.FS }

// text returns the first of the files that is there.
func (f files) text(paths ...string) (string, bool) {
	for _, path := range paths {
		if data, err := fs.ReadFile(f.root, path); err == nil {
			return strings.TrimSpace(string(data)), true
		}
	}

	return "", false
}

// number returns the first of the files that is there, as a number.
func (f files) number(paths ...string) (float64, bool) {
	text, ok := f.text(paths...)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseFloat(text, 64)

	return n, err == nil
}

// field returns the number behind a name in a file of lines "name number".
func (f files) field(path, name string) (float64, bool) {
	text, _ := f.text(path)
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) >= 2 && strings.TrimSuffix(words[0], ":") == name {
			n, err := strconv.ParseFloat(words[1], 64)

			return n, err == nil
		}
	}

	return 0, false
}
