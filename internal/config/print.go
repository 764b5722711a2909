package config

import (
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
)

// Print writes a configuration as YAML, without comments and in the order of the file. What it writes loads again to the same configuration,
// but for secrets, which are never shown.
func Print(w io.Writer, c *Config) error {
	var p printer
	p.mapping(reflect.ValueOf(c).Elem(), 0)
	_, err := io.WriteString(w, p.String())

	return err
}

// JSON returns what [Print] writes, as JSON.
func JSON(c *Config) (json.RawMessage, error) {
	var p printer
	p.mapping(reflect.ValueOf(c).Elem(), 0)
	converted, err := yaml.YAMLToJSON([]byte(p.String()))
	if err != nil {
		return nil, fmt.Errorf("convert configuration to JSON: %w", err)
	}

	return json.RawMessage(strings.TrimSpace(string(converted))), nil
}

// printer writes block style, two spaces a level.
type printer struct{ strings.Builder }

func (p *printer) indent(depth int) { p.WriteString(strings.Repeat("  ", depth)) }

// mapping writes the keys of a struct, each on lines of its own. Unset pointers are keys that are not there.
func (p *printer) mapping(v reflect.Value, depth int) {
	for _, k := range keysOf(v.Type()) {
		if field := v.Field(k.index); field.Kind() != reflect.Pointer || !field.IsNil() {
			p.pair(k.name, field, depth)
		}
	}
}

// pair writes "key: value", or "key:" and the value on the lines below it.
func (p *printer) pair(name string, v reflect.Value, depth int) {
	p.indent(depth)
	p.WriteString(plain(name) + ":")
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	switch {
	case isScalar(v.Type()):
		p.WriteString(" " + scalar(v) + "\n")
	case v.Kind() == reflect.Struct:
		p.WriteByte('\n')
		p.mapping(v, depth+1)
	case v.Kind() == reflect.Map && v.Len() == 0:
		p.WriteString(" {}\n")
	case v.Kind() == reflect.Map:
		p.WriteByte('\n')
		names := make([]string, 0, v.Len())
		for _, name := range v.MapKeys() {
			names = append(names, name.String())
		}
		slices.Sort(names)
		for _, name := range names {
			p.pair(name, v.MapIndex(reflect.ValueOf(name)), depth+1)
		}
	case v.Len() == 0:
		p.WriteString(" []\n")
	default:
		p.WriteByte('\n')
		for i := range v.Len() {
			p.item(v.Index(i), depth+1)
		}
	}
}

// item writes one item of a list of scalars or structs.
func (p *printer) item(v reflect.Value, depth int) {
	if isScalar(v.Type()) {
		p.indent(depth)
		p.WriteString("- " + scalar(v) + "\n")

		return
	}
	var below printer
	below.mapping(v, depth+1)
	p.indent(depth)
	p.WriteString("- " + strings.TrimLeft(below.String(), " "))
}

// scalar returns a scalar as it stands in YAML.
func scalar(v reflect.Value) string {
	if marshaler, ok := v.Interface().(encoding.TextMarshaler); ok {
		text, err := marshaler.MarshalText()
		if err != nil { // no text form of ours fails
			return plain(err.Error())
		}
		if _, err := strconv.Atoi(string(text)); err == nil {
			return string(text) // "0" and a number of requests: the text form is read from a number too
		}

		return plain(string(text))
	}
	switch v.Kind() {
	case reflect.String:
		return plain(v.String())
	case reflect.Float64:
		text := strconv.FormatFloat(v.Float(), 'f', -1, 64)

		return text
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
