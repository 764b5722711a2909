package config

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// origin is where the value of a key was set.
type origin struct {
	source       string // file, environment variable or flag
	line, column int    // 0 outside of files
}

// document is a configuration while it is being read: what was wrong so far, and where each value came from.
type document struct {
	file     string
	lines    []string
	problems []Problem
	origins  map[string]origin
}

func newDocument(file string) *document {
	return &document{file: file, origins: map[string]origin{}}
}

// parse turns the file's bytes into the mapping at its root, nil for an empty file. Syntax errors become problems.
func (d *document) parse(data []byte) ast.Node {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	d.lines = strings.Split(string(data), "\n")
	file, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey()) // duplicates are reported by the walk, all of them
	if err != nil {
		d.syntaxError(err)

		return nil
	}
	var root ast.Node
	for _, doc := range file.Docs {
		switch {
		case doc.Body == nil:
		case root == nil:
			root = doc.Body
		default:
			d.reportAtf(start(doc.Body), "", "a second YAML document begins here: expected exactly one")

			return root
		}
	}

	return root
}

func (d *document) syntaxError(err error) {
	var syntax *yaml.SyntaxError
	if errors.As(err, &syntax) && syntax.Token != nil && syntax.Token.Position != nil {
		d.reportAtf(syntax.Token.Position, "", "no valid YAML: %s", syntax.GetMessage())

		return
	}
	d.problems = append(d.problems, Problem{Source: d.file, Text: "no valid YAML: " + err.Error()})
}

// reportAtf adds a problem at a position of the file.
func (d *document) reportAtf(at *token.Position, path, format string, args ...any) {
	d.problems = append(d.problems, Problem{
		Source: d.file, Line: at.Line, Column: at.Column, Path: path,
		Text: fmt.Sprintf(format, args...), Excerpt: excerpt(d.lines, at.Line, at.Column),
	})
}

// problemf makes a problem at the place where path, or the nearest mapping or list around it, was set.
func (d *document) problemf(path, format string, args ...any) Problem {
	p := Problem{Source: d.file, Path: path, Text: fmt.Sprintf(format, args...)}
	for around := path; around != ""; around = around[:max(0, strings.LastIndexAny(around, ".["))] {
		from, ok := d.origins[around]
		if !ok {
			continue
		}
		p.Source, p.Line, p.Column = from.source, from.line, from.column
		if from.line > 0 {
			p.Excerpt = excerpt(d.lines, from.line, from.column)
		}

		break
	}

	return p
}

// reportf adds a problem at the place where path was set.
func (d *document) reportf(path, format string, args ...any) {
	d.problems = append(d.problems, d.problemf(path, format, args...))
}

// explicit says whether somebody set the value at path, rather than leaving it to the default.
func (d *document) explicit(path string) bool {
	_, ok := d.origins[path]

	return ok
}

// start returns where a node begins. A mapping's own token is its first colon.
func start(node ast.Node) *token.Position {
	switch n := node.(type) {
	case *ast.MappingNode:
		if !n.IsFlowStyle && len(n.Values) > 0 {
			return start(n.Values[0].Key)
		}
	case *ast.MappingValueNode:
		return start(n.Key)
	}
	if t := node.GetToken(); t != nil && t.Position != nil {
		return t.Position
	}

	return &token.Position{Line: 1, Column: 1}
}
