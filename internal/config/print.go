package config

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

// Print writes a configuration as YAML, without comments and in the order of the file. What it writes loads again to the same configuration,
// but for secrets, which are never shown.
func Print(w io.Writer, c *Config) error {
	_, err := w.Write(printMapping(reflect.ValueOf(c).Elem(), 0))

	return err
}

// JSON returns what [Print] writes, as JSON.
func JSON(c *Config) (json.RawMessage, error) {
	converted, err := yaml.YAMLToJSON(printMapping(reflect.ValueOf(c).Elem(), 0))
	if err != nil {
		return nil, fmt.Errorf("convert configuration to JSON: %w", err)
	}

	return json.RawMessage(strings.TrimSpace(string(converted))), nil
}

// printMapping writes the keys of a struct in block style, each on lines of its own, two spaces a level. Unset pointers are keys that are not there.
func printMapping(v reflect.Value, depth int) []byte {
	var text []byte
	for _, k := range keysOf(v.Type()) {
		if field := v.Field(k.index); field.Kind() != reflect.Pointer || !field.IsNil() {
			text = append(text, printPair(k.name, field, depth)...)
		}
	}

	return text
}

// printPair writes "key: value", or "key:" and the value on the lines below it.
func printPair(name string, v reflect.Value, depth int) []byte {
	text := fmt.Appendf(nil, "%*s%s:", 2*depth, "", plain(name))
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	switch kind := v.Kind(); {
	case isScalar(v.Type()):
		text = append(text, " "+scalar(v)+"\n"...)
	case kind == reflect.Struct:
		text = append(append(text, '\n'), printMapping(v, depth+1)...)
	case kind == reflect.Map && v.Len() == 0:
		text = append(text, " {}\n"...)
	case kind == reflect.Map:
		text = append(text, '\n')
		names := make([]string, 0, v.Len())
		for _, name := range v.MapKeys() {
			names = append(names, name.String())
		}
		slices.Sort(names)
		for _, name := range names {
			text = append(text, printPair(name, v.MapIndex(reflect.ValueOf(name)), depth+1)...)
		}
	case v.Type() == reflect.TypeFor[units.AutoList]() && v.IsNil():
		text = append(text, " auto\n"...)
	case v.Len() == 0:
		text = append(text, " []\n"...)
	default:
		text = append(text, '\n')
		for i := range v.Len() {
			text = append(text, printItem(v.Index(i), depth+1)...)
		}
	}

	return text
}

// printItem writes one item of a list of scalars or structs.
func printItem(v reflect.Value, depth int) []byte {
	if isScalar(v.Type()) {
		return fmt.Appendf(nil, "%*s- %s\n", 2*depth, "", scalar(v))
	}
	below := printMapping(v, depth+1)

	return fmt.Appendf(nil, "%*s- %s", 2*depth, "", bytes.TrimLeft(below, " "))
}

// scalar returns a scalar as it stands in YAML.
func scalar(v reflect.Value) string {
	if marshaler, ok := reflect.TypeAssert[encoding.TextMarshaler](v); ok {
		text, err := marshaler.MarshalText()
		if err != nil { // no text form of ours fails
			return plain(err.Error())
		}
		if _, err := strconv.Atoi(string(text)); err == nil {
			return string(text) // "0" and a number of requests: the text form is read from a number too
		}

		return plain(string(text))
	}
	switch v.Kind() { //nolint:exhaustive // the rest prints itself
	case reflect.String:
		return plain(v.String())
	case reflect.Float64:
		return strconv.FormatFloat(v.Float(), 'f', -1, 64)
	default:
		return fmt.Sprint(v.Interface())
	}
}

var (
	// unquoted matches text that YAML reads as text without quotes, but for the words and numbers below.
	unquoted = regexp.MustCompile(`^[A-Za-z0-9/_]([A-Za-z0-9/_.:+-]*[A-Za-z0-9/_.+-])?$`)
	// otherwise matches what looks like text but which YAML, in one version or another, reads as something else.
	otherwise = regexp.MustCompile(`^(?i:true|false|yes|no|on|off|y|n|null|[0-9][0-9._:+-]*(e[+-]?[0-9]*)?|0[xob][0-9a-f_]*)$`)
)

// plain returns text as it stands in YAML, in double quotes where it needs them. JSON's quoting is a part of YAML's.
func plain(text string) string {
	if unquoted.MatchString(text) && !otherwise.MatchString(text) {
		return text
	}
	var quoted strings.Builder
	encoder := json.NewEncoder(&quoted)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(text); err != nil { // a string always encodes
		return strconv.Quote(text)
	}

	return strings.TrimSuffix(quoted.String(), "\n")
}
