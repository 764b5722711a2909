package proxy

import (
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Another way to write down how servers read paths, for [FuzzPath].
var (
	fragment     = regexp.MustCompile(`#.*`)
	parameters   = regexp.MustCompile(`;[^/]*`)
	escape       = regexp.MustCompile(`%[0-9A-Fa-f]{2}`)
	slashes      = regexp.MustCompile(`/+`)
	dot          = regexp.MustCompile(`/\.(/|$)`)
	dotsAtFirst  = regexp.MustCompile(`^/\.\.(/|$)`)
	nameAndDots  = regexp.MustCompile(`(?s)/[^/]*/\.\.(/|$)`)
	slashesAtEnd = regexp.MustCompile(`(?s)(.)/+$`)
	fuzzedDenied = regexp.MustCompile(`(?s)^(/a|/b/.*/c)$`)
)

func resolved(path string) string {
	for {
		first := []*regexp.Regexp{dot, dotsAtFirst, nameAndDots}
		at := slices.IndexFunc(first, func(e *regexp.Regexp) bool { return e.MatchString(path) })
		if at < 0 {
			return path
		}
		place := first[at].FindStringIndex(path)
		path = path[:place[0]] + "/" + path[place[1]:]
	}
}

func decodedOnce(path string) string {
	return escape.ReplaceAllStringFunc(path, func(escape string) string {
		value, _ := strconv.ParseUint(escape[1:], 16, 8)

		return string([]byte{byte(value)})
	})
}

// allReadings are all the paths that a server may take path for.
func allReadings(path string) []string {
	all := []string{path}
	for _, step := range []func(string) string{
		func(path string) string { return fragment.ReplaceAllString(path, "") },
		func(path string) string { return parameters.ReplaceAllString(path, "") },
		resolved,
		decodedOnce,
		func(path string) string { return slashes.ReplaceAllString(path, "/") },
		resolved,
		func(path string) string { return slashesAtEnd.ReplaceAllString(path, "$1") },
	} {
		for _, read := range all {
			if other := step(read); !slices.Contains(all, other) {
				all = append(all, other)
			}
		}
	}

	return all
}

// FuzzPath asks for arbitrary paths where /a and /b/*/c are denied. A server may end a path at #, leave out what follows ; in a name, resolve dots before it decodes, take the
// percent-encoding away once, make one slash of many, resolve dots after it has decoded, and drop slashes at the end: some of it or all, in this order. If any of
// that makes a denied path, the request is refused; if nothing does, it arrives with its target as it was sent, byte by byte. Only where a target begins with two slashes the
// standard transport escapes what a URL should not hold: net/http has no other way to write it.
func FuzzPath(f *testing.F) {
	for _, target := range []string{
		"a", "a?b=c", "A", "aa", "%61", "%4a", "%4A", "%2561", "a/", "a//", "//a", ".//a", "./a", "x/../a", "x%2f%2E./a", "x//../a", "x//%2e%2e//a", "%61/%2e%2e/..", "a#x", "%23/../a#x", "a;b", "a;/", "a%3b", "x/..;/a", ";/a",
		"b/c", "b//c", "b/x/c", "b%2Fx%2fc", "/b/x/../../c", "b/x/../../c/", "b/x/y%2F..%2F..%2F../c", "b/;x/c;y", "b/x/c?/../d", "b/x/c/..", "", "?", "#", ";", "%", "%zz", "../..", ".a", "a.", "..a/b", "...", "*",
	} {
		f.Add(target, false)
		f.Add(target, true)
	}
	rigs := map[bool]*fuzzRig{}
	for standard, transport := range map[bool]Transport{false: Direct, true: Standard} {
		rigs[standard] = newFuzzRig(f, transport, DenyPaths([]string{"/a", "/b/*/c"}))
	}
	f.Fuzz(func(t *testing.T, path string, standard bool) {
		if !printable(path) || len(path) > 1000 {
			return // what belongs in no target is [FuzzRequest]'s
		}
		target := "/" + path
		recorder := rigs[standard].begin(own)
		answer, _, _ := strings.Cut(string(rigs[standard].client(t, []byte("GET "+target+" HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"), false)), "\r\n")
		var arrived []string
		for _, request := range rigs[standard].end(t, recorder) {
			arrived = append(arrived, request.target)
		}
		read, _, _ := strings.Cut(target, "?")
		want, wantArrived := "HTTP/1.1 200 OK", []string{target}
		if parsed, err := url.ParseRequestURI(target); err != nil {
			want, wantArrived = "HTTP/1.1 400 Bad Request", nil
		} else if slices.ContainsFunc(allReadings(read), fuzzedDenied.MatchString) {
			want, wantArrived = "HTTP/1.1 403 Forbidden", nil
		} else if standard && strings.HasPrefix(target, "//") {
			wantArrived = []string{parsed.RequestURI()}
		}
		if answer != want || !slices.Equal(arrived, wantArrived) {
			t.Errorf("%s: %q, %q arrived; expected %q and %q", target, answer, arrived, want, wantArrived)
		}
	})
}
