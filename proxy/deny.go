package proxy

import (
	"net/http"
	"strings"
)

// DenyPaths returns what [Settings.Denied] may be for a list that somebody wrote: paths in which * stands for any characters, slashes too, since
// a name in a path may hold slashes once it is decoded.
func DenyPaths(patterns []string) func(path string) bool {
	return func(path string) bool {
		for _, pattern := range patterns {
			if matches(pattern, path) {
				return true
			}
		}

		return false
	}
}

// matches says whether text is what pattern describes. The earliest place for each piece between two stars is as good as any.
func matches(pattern, text string) bool {
	pieces := strings.Split(pattern, "*")
	if len(pieces) == 1 {
		return pattern == text
	}
	text, ok := strings.CutPrefix(text, pieces[0])
	if !ok {
		return false
	}
	for _, piece := range pieces[1 : len(pieces)-1] {
		if _, text, ok = strings.Cut(text, piece); !ok {
			return false
		}
	}

	return strings.HasSuffix(text, pieces[len(pieces)-1])
}

// denied says whether r's path is denied in any of the ways in which a server may read it.
func (h *Handler) denied(r *http.Request) bool {
	if h.settings.Denied == nil {
		return false
	}
	path, _, _ := strings.Cut(target(r, ""), "?")
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}

	return mayBe(path, h.settings.Denied, readings)
}
