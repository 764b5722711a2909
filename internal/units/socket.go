package units

import (
	"fmt"
	"strings"
)

// maxSocketPath is what fits into a sockaddr_un on Linux, its final zero left out.
const maxSocketPath = 107

// socketPath reads what follows "unix:": a path, or two slashes and a path.
func socketPath(rest string) (path, reason string) {
	if authority, ok := strings.CutPrefix(rest, "//"); ok {
		if !strings.HasPrefix(authority, "/") {
			return "", fmt.Sprintf("the path of a socket is absolute, did you mean unix:/%s?", strings.TrimLeft(authority, "/"))
		}
		rest = authority
	}
	switch {
	case rest == "":
		return "", "the path of the socket is missing, expected unix:/path"
	case !strings.HasPrefix(rest, "/"):
		return "", fmt.Sprintf("the path of a socket is absolute, did you mean unix:/%s?", rest)
	case strings.HasPrefix(rest, "//"):
		return "", fmt.Sprintf("too many slashes, did you mean unix:/%s?", strings.TrimLeft(rest, "/"))
	case strings.HasSuffix(rest, "/"):
		return "", "the path of a socket must not end in a slash"
	case len(rest) > maxSocketPath:
		return "", fmt.Sprintf("the path of a socket has at most %d bytes, this one has %d", maxSocketPath, len(rest))
	}

	return rest, ""
}

func socketHint(path string) string {
	return fmt.Sprintf("the path of a socket needs unix: before it, did you mean unix:/%s?", strings.TrimLeft(path, "./"))
}
