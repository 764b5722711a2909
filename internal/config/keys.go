package config

import (
	"encoding"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"
)

// key is one key that a mapping may have.
type key struct {
	name  string
	index int
}

// keysOf lists the keys of a struct in the order of its fields.
func keysOf(t reflect.Type) []key {
	keys := make([]key, 0, t.NumField())
	for i := range t.NumField() {
		if name := t.Field(i).Tag.Get("yaml"); name != "" && name != "-" {
			keys = append(keys, key{name, i})
		}
	}

	return keys
}

func keyNames(keys []key) []string {
	names := make([]string, 0, len(keys))
	for _, k := range keys {
		names = append(names, k.name)
	}

	return names
}

// isScalar says whether a value of type t is written as one scalar, by a text form of its own or as a plain kind.
func isScalar(t reflect.Type) bool {
	if reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return true
	}

	return slices.Contains([]reflect.Kind{reflect.String, reflect.Bool, reflect.Int, reflect.Float64}, t.Kind())
}

// join appends a key to a dotted path.
func join(path, name string) string {
	if path == "" {
		return name
	}

	return path + "." + name
}

// keyPaths lists the dotted path of every key below t, list and map items left out.
func keyPaths(t reflect.Type, path string) []string {
	if isScalar(t) || t.Kind() != reflect.Struct {
		return nil
	}
	var paths []string
	for _, k := range keysOf(t) {
		below := join(path, k.name)
		paths = append(paths, below)
		paths = append(paths, keyPaths(t.Field(k.index).Type, below)...)
	}

	return paths
}

// lookup returns the value at a dotted path; the path must exist and lead through structs only.
func lookup(v reflect.Value, path string) (reflect.Value, bool) {
	for name := range strings.SplitSeq(path, ".") {
		if v.Kind() != reflect.Struct || isScalar(v.Type()) {
			return reflect.Value{}, false
		}
		keys := keysOf(v.Type())
		at := slices.IndexFunc(keys, func(k key) bool { return k.name == name })
		if at < 0 {
			return reflect.Value{}, false
		}
		v = v.Field(keys[at].index)
	}

	return v, true
}

// nearest returns the one of names that text was probably meant to be, or "". The first of several equally near ones wins.
func nearest(text string, names []string) string {
	best, bestDistance := "", 1+utf8.RuneCountInString(text)/4
	for _, name := range names {
		if d := distance(fold(text), fold(name)); d < bestDistance || (d == bestDistance && best == "") {
			best, bestDistance = name, d
		}
	}

	return best
}

// fold removes what people write differently: case, hyphens and underscores.
func fold(text string) string {
	return strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(text))
}

// maxCompared bounds what is compared: no key is that long.
const maxCompared = 64

// distance is the number of letters to insert, delete, replace or swap with their neighbour to make b of a.
func distance(a, b string) int {
	from, to := []rune(a), []rune(b)
	if len(from) > maxCompared || len(to) > maxCompared {
		return maxCompared
	}
	rows := make([][]int, len(from)+1)
	for i := range rows {
		rows[i] = make([]int, len(to)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(from); i++ {
		for j := 1; j <= len(to); j++ {
			replaced := rows[i-1][j-1]
			if from[i-1] != to[j-1] {
				replaced++
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, replaced)
			if i > 1 && j > 1 && from[i-1] == to[j-2] && from[i-2] == to[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}

	return rows[len(from)][len(to)]
}
