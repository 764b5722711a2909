package proxy

import (
	"bytes"
	"net/url"
	"strings"
)

// readings are what servers do to a path before they look at it. Nobody knows which of it a server does, but it does so in this order.
var readings = []func(path string) string{withoutFragment, withoutParameters, withoutDots, unescaped, withoutDoubledSlashes, withoutDots, withoutSlashAtEnd}

// mayBe says whether is holds for path in any of the ways in which a server may read it that takes some of the steps and leaves out the others.
// Most paths are the same after each step, and are looked at once.
func mayBe(path string, is func(path string) bool, steps []func(path string) string) bool {
	if len(steps) == 0 {
		return is(path)
	}
	read := steps[0](path)

	return mayBe(read, is, steps[1:]) || (read != path && mayBe(path, is, steps[1:]))
}

// withoutFragment ends path at a #, which is a character like any other to net/http, but not to some servers.
func withoutFragment(path string) string {
	begin, _, _ := strings.Cut(path, "#")

	return begin
}

// withoutParameters leaves out what follows a semicolon in each name.
func withoutParameters(path string) string {
	if !strings.Contains(path, ";") {
		return path
	}
	names := strings.Split(path, "/")
	for i := range names {
		names[i], _, _ = strings.Cut(names[i], ";")
	}

	return strings.Join(names, "/")
}

// withoutDots resolves . and .. as RFC 3986 does, to which there is a name between two slashes even if it is empty.
func withoutDots(path string) string {
	if !strings.Contains(path, "/.") {
		return path
	}
	kept := make([]byte, 0, len(path))
	for name := range strings.SplitSeq(path[1:], "/") {
		switch name {
		case ".":
		case "..":
			kept = kept[:max(0, bytes.LastIndexByte(kept, '/'))]
		default:
			kept = append(append(kept, '/'), name...)
		}
	}
	if strings.HasSuffix(path, "/.") || strings.HasSuffix(path, "/..") {
		kept = append(kept, '/')
	}

	return string(kept)
}

// unescaped is path with its percent-encoding taken away, once. One that is encoded wrongly net/http has refused.
func unescaped(path string) string {
	if decoded, err := url.PathUnescape(path); err == nil {
		return decoded
	}

	return path
}

func withoutDoubledSlashes(path string) string {
	for strings.Contains(path, "//") {
		path = strings.ReplaceAll(path, "//", "/")
	}

	return path
}

func withoutSlashAtEnd(path string) string {
	if begin := strings.TrimRight(path, "/"); begin != "" {
		return begin
	}

	return "/"
}
