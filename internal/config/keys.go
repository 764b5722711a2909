package config

import (
	"encoding"
	"reflect"
	"slices"
	"strings"
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
