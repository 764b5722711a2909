package config

import (
	"encoding"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

// decode walks a node beside the Go value that it is for. Whatever does not fit becomes a problem, and the walk goes on, so that one run shows
// everything. (The YAML library's own decoder stops at the first unknown key and loses the position of errors from a text form.)
func (d *document) decode(node ast.Node, into reflect.Value, path string) {
	switch n := node.(type) {
	case *ast.AnchorNode, *ast.AliasNode:
		d.reportAtf(start(node), path, "anchors and aliases are not supported: write the value out")

		return
	case *ast.TagNode:
		d.reportAtf(start(node), path, "YAML tags are not supported: write the value without %s", n.Start.Value)

		return
	case *ast.DirectiveNode:
		d.reportAtf(start(node), path, "YAML directives are not supported")

		return
	}
	at := start(node)
	if path != "" {
		d.origins[path] = origin{d.file, at.Line, at.Column}
	}
	if _, null := node.(*ast.NullNode); null {
		d.decodeNothing(node, into, path)

		return
	}
	if isScalar(into.Type()) {
		d.decodeScalar(node, into, path)

		return
	}
	if text, ok := scalarText(node); ok && text == "auto" && into.Type() == reflect.TypeFor[units.AutoList]() {
		into.SetZero()

		return
	}
	switch into.Kind() { //nolint:exhaustive // no configuration has a field of another kind
	case reflect.Pointer:
		into.Set(reflect.New(into.Type().Elem()))
		into.Elem().Set(fresh(into.Type().Elem()))
		d.decode(node, into.Elem(), path)
	case reflect.Struct:
		d.decodeStruct(node, into, path)
	case reflect.Map:
		d.decodeMap(node, into, path)
	case reflect.Slice:
		d.decodeList(node, into, path)
	default:
		d.reportAtf(at, path, "cannot be set: no form is known for %s", into.Type())
	}
}

// decodeNothing reads "key:" with nothing behind it. For a mapping or a list, whose lines may all be commented out, the defaults stay.
func (d *document) decodeNothing(node ast.Node, into reflect.Value, path string) {
	delete(d.origins, path)
	kind := into.Kind()
	if kind == reflect.Pointer {
		kind = into.Type().Elem().Kind()
		if kind == reflect.Struct { // "wait:" alone is a step that waits, with all its defaults
			into.Set(reflect.New(into.Type().Elem()))
			into.Elem().Set(fresh(into.Type().Elem()))
		}
	}
	if isScalar(into.Type()) || (kind != reflect.Struct && kind != reflect.Slice && kind != reflect.Map) {
		d.reportAtf(start(node), path, "expected %s, got nothing", expected(into.Type()))
	}
}

func (d *document) decodeStruct(node ast.Node, into reflect.Value, path string) {
	keys := keysOf(into.Type())
	for _, entry := range d.entries(node, into.Type(), path) {
		at := slices.IndexFunc(keys, func(k key) bool { return k.name == entry.name })
		if at < 0 {
			d.reportAtf(start(entry.key), join(path, entry.name), "unknown key, %s", suggestion(entry.name, path, keyNames(keys)))
			d.problems[len(d.problems)-1].unknown = true

			continue
		}
		d.decode(entry.value, into.Field(keys[at].index), join(path, entry.name))
	}
}

func (d *document) decodeMap(node ast.Node, into reflect.Value, path string) {
	entries := d.entries(node, into.Type(), path)
	decoded := reflect.MakeMapWithSize(into.Type(), len(entries))
	for _, entry := range entries {
		value := reflect.New(into.Type().Elem()).Elem()
		d.decode(entry.value, value, join(path, entry.name))
		decoded.SetMapIndex(reflect.ValueOf(entry.name), value)
	}
	into.Set(decoded)
}

func (d *document) decodeList(node ast.Node, into reflect.Value, path string) {
	list, ok := node.(*ast.SequenceNode)
	if !ok {
		d.wrongKind(node, into.Type(), path)

		return
	}
	decoded := reflect.MakeSlice(into.Type(), len(list.Values), len(list.Values))
	for i, item := range list.Values {
		into := decoded.Index(i)
		into.Set(fresh(into.Type()))
		d.decode(item, into, fmt.Sprintf("%s[%d]", path, i))
	}
	into.Set(decoded)
}

// entry is one key of a mapping with its value.
type entry struct {
	name  string
	key   ast.Node
	value ast.Node
}

// entries lists the keys of a mapping; those written twice, and merge keys, are reported and left out.
func (d *document) entries(node ast.Node, t reflect.Type, path string) []entry {
	var pairs []*ast.MappingValueNode
	switch n := node.(type) {
	case *ast.MappingNode:
		pairs = n.Values
	case *ast.MappingValueNode:
		pairs = []*ast.MappingValueNode{n}
	default:
		d.wrongKind(node, t, path)

		return nil
	}
	found := make([]entry, 0, len(pairs))
	for _, pair := range pairs {
		name, ok := keyText(pair.Key)
		first := slices.IndexFunc(found, func(e entry) bool { return e.name == name })
		switch {
		case pair.Key.IsMergeKey():
			d.reportAtf(start(pair.Key), path, "merge keys (<<) are not supported: write the keys out")
		case !ok:
			d.reportAtf(start(pair.Key), path, "a key must be plain text")
		case first >= 0:
			d.reportAtf(start(pair.Key), join(path, name), "stands here twice, first on line %d", start(found[first].key).Line)
		default:
			found = append(found, entry{name, pair.Key, pair.Value})
		}
	}

	return found
}

// keyText returns a key as it was written.
func keyText(key ast.MapKeyNode) (string, bool) {
	switch k := key.(type) {
	case *ast.StringNode:
		return k.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NullNode:
		return key.GetToken().Value, true
	default:
		return "", false
	}
}

func (d *document) decodeScalar(node ast.Node, into reflect.Value, path string) {
	text, ok := scalarText(node)
	if !ok {
		d.wrongKind(node, into.Type(), path)

		return
	}
	_, isText := reflect.TypeAssert[encoding.TextUnmarshaler](into.Addr())
	if !isText && !fits(node, into.Kind()) {
		d.wrongKind(node, into.Type(), path)

		return
	}
	if err := setText(into, text); err != nil {
		d.reportAtf(start(node), path, "%s", err)
	}
}

// scalarText returns a scalar as it was written: 1.10 stays 1.10, whatever YAML makes of it.
func scalarText(node ast.Node) (string, bool) {
	switch n := node.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return node.GetToken().Value, true
	default:
		return "", false
	}
}

// fits says whether a scalar is of the right form for a plain kind: "20" in quotes is no number. Any scalar is text.
func fits(node ast.Node, kind reflect.Kind) bool {
	switch node.(type) {
	case *ast.IntegerNode:
		return kind == reflect.Int || kind == reflect.Float64 || kind == reflect.String
	case *ast.FloatNode:
		return kind == reflect.Float64 || kind == reflect.String
	case *ast.BoolNode:
		return kind == reflect.Bool || kind == reflect.String
	default:
		return kind == reflect.String
	}
}

// setText sets a scalar from its text form. The value is unchanged when there is an error.
func setText(into reflect.Value, text string) error {
	if unmarshaler, ok := reflect.TypeAssert[encoding.TextUnmarshaler](into.Addr()); ok {
		return unmarshaler.UnmarshalText([]byte(text))
	}
	switch into.Kind() { //nolint:exhaustive // no configuration has a field of another kind
	case reflect.String:
		into.SetString(text)
	case reflect.Bool:
		switch text {
		case "true", "True", "TRUE":
			into.SetBool(true)
		case "false", "False", "FALSE":
			into.SetBool(false)
		default:
			return fmt.Errorf("expected true or false, got %q", text)
		}
	case reflect.Int:
		n, err := strconv.Atoi(text)
		if err != nil || (len(text) > 1 && strings.HasPrefix(text, "0")) { // 012 is twelve for some and ten for others
			return fmt.Errorf("expected a whole number, got %s", text)
		}
		into.SetInt(int64(n))
	case reflect.Float64:
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
			return fmt.Errorf("expected a number, got %s", text)
		}
		into.SetFloat(f)
	default:
		return fmt.Errorf("set text: no form is known for %s", into.Type())
	}

	return nil
}

// wrongKind reports a node that cannot be what the type needs, such as a list for a mapping.
func (d *document) wrongKind(node ast.Node, t reflect.Type, path string) {
	hint := ""
	if text, ok := scalarText(node); ok && t.Kind() == reflect.Bool {
		switch strings.ToLower(text) {
		case "yes", "on", "y":
			hint = ", did you mean true?"
		case "no", "off", "n":
			hint = ", did you mean false?"
		}
	}
	d.reportAtf(start(node), path, "expected %s, got %s%s", expected(t), got(node, path), hint)
}

// expected says what a value of type t looks like.
func expected(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[units.Duration]():
		return "a duration such as 30s"
	case reflect.TypeFor[units.Size]():
		return "a size such as 16MiB"
	case reflect.TypeFor[units.Address]():
		return "an address such as localhost:8000"
	case reflect.TypeFor[units.Listen]():
		return "an address such as :9000"
	case reflect.TypeFor[units.Auto[units.Duration]]():
		return "auto or a duration such as 30s"
	case reflect.TypeFor[units.Auto[units.Size]]():
		return "auto or a size such as 16MiB"
	case reflect.TypeFor[units.Auto[int]]():
		return "auto or a whole number"
	case reflect.TypeFor[units.AutoList]():
		return "auto or a list"
	case reflect.TypeFor[units.Auto[string]](), reflect.TypeFor[Secret]():
		return "text"
	}
	if isScalar(t) && t.PkgPath() != "" {
		return "one word" // an enum: its names are listed once the form is right
	}
	switch t.Kind() { //nolint:exhaustive // as above
	case reflect.Bool:
		return "true or false"
	case reflect.Int:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	case reflect.String:
		return "text"
	case reflect.Pointer:
		return expected(t.Elem())
	case reflect.Slice:
		return "a list"
	case reflect.Struct:
		return "a mapping with the keys " + strings.Join(keyNames(keysOf(t)), ", ")
	default:
		return "a mapping"
	}
}

// got says what a node is. In headers it does not repeat the text, which may be a secret.
func got(node ast.Node, path string) string {
	switch n := node.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.StringNode:
		if strings.HasPrefix(path, "backend.headers") {
			return "text"
		}

		return fmt.Sprintf("text %q", n.Value)
	case *ast.LiteralNode:
		return "text"
	case *ast.NullNode:
		return "nothing"
	default:
		return node.GetToken().Value
	}
}

// suggestion says which key was probably meant instead of an unknown one: a near one beside it, the same one elsewhere, or any of those that there are.
func suggestion(name, path string, known []string) string {
	if near := units.Nearest(name, known); near != "" {
		return fmt.Sprintf("did you mean %s?", near)
	}
	var elsewhere []string
	for _, other := range keyPaths(reflect.TypeFor[Config](), "") {
		if other == name || strings.HasSuffix(other, "."+name) {
			elsewhere = append(elsewhere, other)
		}
	}
	if len(elsewhere) == 1 {
		return fmt.Sprintf("did you mean %s?", elsewhere[0])
	}
	if path == "" {
		return "expected one of " + strings.Join(known, ", ")
	}

	return fmt.Sprintf("expected one of %s in %s", strings.Join(known, ", "), path)
}
