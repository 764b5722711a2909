package config

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Problem is one thing that is wrong, or only strange, with a configuration.
type Problem struct {
	// Source is the file, the environment variable or the flag that holds it.
	Source string
	// Line and Column count from 1. Line is 0 where there is none.
	Line, Column int
	// Path is the dotted path of the key, such as "models[1].name"; empty for the file as a whole.
	Path string
	// Text says what is wrong, what was expected and what was found.
	Text string
	// Excerpt is the line of the file with a caret below; empty where there is none.
	Excerpt string

	// unknown marks unknown keys, for the test that counts which keys of the contract are still missing.
	unknown bool
}

// String returns "file:line:column: path: text" and the excerpt below it.
func (p Problem) String() string {
	var b strings.Builder
	if p.Source != "" {
		b.WriteString(p.Source + ":")
		if p.Line > 0 {
			fmt.Fprintf(&b, "%d:%d:", p.Line, p.Column)
		}
		b.WriteByte(' ')
	}
	if p.Path != "" {
		b.WriteString(p.Path + ": ")
	}
	b.WriteString(p.Text)
	if p.Excerpt != "" {
		b.WriteByte('\n')
		b.WriteString(p.Excerpt)
	}

	return b.String()
}

// RefusalError is the error of a configuration that cannot be used. It lists everything that is wrong, not only the first.
type RefusalError struct {
	// Problems is never empty.
	Problems []Problem
}

// Error lists the problems, each on lines of its own.
func (r *RefusalError) Error() string {
	texts := make([]string, 0, len(r.Problems))
	for _, problem := range r.Problems {
		texts = append(texts, problem.String())
	}

	return strings.Join(texts, "\n")
}

// ExitCode is the exit code of a command that refuses its configuration.
func (r *RefusalError) ExitCode() int { return 2 }

// inOrder sorts problems by their place in the file; those elsewhere keep their order, after them.
func inOrder(problems []Problem) {
	slices.SortStableFunc(problems, func(a, b Problem) int {
		if a.Line == 0 || b.Line == 0 {
			return cmp.Compare(min(b.Line, 1), min(a.Line, 1))
		}

		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}

// maxExcerpt bounds an excerpt; nobody reads more of one line.
const maxExcerpt = 160

var (
	// headerBlock finds the line that begins the headers of the backend.
	headerBlock = regexp.MustCompile(`^\s*["']?headers["']?\s*:`)
	// maySecret finds, in any line, from where on it may hold the value of a header.
	maySecret = regexp.MustCompile(`(?i)(["']?(?:headers|value)["']?\s*:\s*)\S.*`)
)

// excerpt returns the line with a caret below the column. Of lines that may hold the value of a header it shows nothing.
func excerpt(lines []string, line, column int) string {
	if line < 1 || line > len(lines) || column > maxExcerpt || inHeaders(lines, line) {
		return ""
	}
	shown := strings.ReplaceAll(strings.TrimRight(lines[line-1], "\r"), "\t", " ")
	shown = maySecret.ReplaceAllString(shown, "${1}"+redacted)
	if runes := []rune(shown); len(runes) > maxExcerpt {
		shown = string(runes[:maxExcerpt]) + "…"
	}

	return fmt.Sprintf("%4d | %s\n     | %s^", line, shown, strings.Repeat(" ", max(0, column-1)))
}

// inHeaders says whether a line lies below a "headers:" line, judged by indentation so that it holds for files that do not parse.
func inHeaders(lines []string, line int) bool {
	depth, inside := -1, false
	for _, text := range lines[:line] {
		trimmed := strings.TrimLeft(text, " \t")
		if strings.TrimSpace(trimmed) == "" {
			continue
		}
		indent := len(text) - len(trimmed)
		if inside = depth >= 0 && indent > depth; inside {
			continue
		}
		depth = -1
		if headerBlock.MatchString(text) {
			depth = indent
		}
	}

	return inside
}
