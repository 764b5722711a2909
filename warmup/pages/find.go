package pages

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	// maxFiles bounds what patterns may match: beyond it stands a pattern such as "/**".
	maxFiles = 10_000
	// maxDepth bounds folders in folders.
	maxDepth = 64
	// maxProblems bounds how many of them are told.
	maxProblems = 20
)

// match is a file that a pattern matches.
type match struct {
	path string
	info fs.FileInfo
	// pattern counts the patterns before the one that matched.
	pattern int
	// unused is true for weights beside an index that does not name them: loaders do not open those.
	unused bool
	// parts are what is known to be read of it, in order; nil: what its format says.
	parts []Range
}

// finder looks for files. Links to folders are followed, as snapshots of a cache of Hugging Face and mounted ConfigMaps need it; each folder is entered once.
type finder struct {
	ctx      context.Context //nolint:containedctx // it lives as long as the call
	matches  []match
	problems []string
	pattern  int
	entered  []fs.FileInfo
}

// CheckPattern says what is wrong with a pattern.
func CheckPattern(pattern string) error {
	if !filepath.IsAbs(pattern) {
		return fmt.Errorf("path %q: expected one that begins with /", pattern)
	}
	for segment := range strings.SplitSeq(pattern, "/") {
		if segment != "**" && strings.Contains(segment, "**") {
			return fmt.Errorf("path %q: ** stands for whole folders, expected it between slashes", pattern)
		}
		if _, err := filepath.Match(segment, ""); err != nil {
			return fmt.Errorf("path %q: %q is no pattern: %w", pattern, segment, err)
		}
	}

	return nil
}

// find returns the files that the patterns match, each once, in the order of the patterns and within a pattern as loaders open them.
func find(ctx context.Context, patterns []string) (matches []match, problems []string, err error) {
	f := &finder{ctx: ctx}
	for i, pattern := range patterns {
		if err := CheckPattern(pattern); err != nil {
			return nil, nil, err
		}
		f.pattern, f.entered = i, nil
		if err := f.walk("/", strings.Split(strings.Trim(filepath.Clean(pattern), "/"), "/"), 0); err != nil {
			return nil, f.problems, err
		}
	}
	if len(f.matches) == 0 {
		return nil, f.problems, fmt.Errorf("no file matches %s%s", strings.Join(patterns, " or "), f.hint(patterns))
	}

	arrange(f)

	return f.matches, f.problems, nil
}

// hint says what may have been meant.
func (f *finder) hint(patterns []string) string {
	for _, pattern := range patterns {
		if info, err := os.Stat(pattern); err == nil && info.IsDir() {
			return fmt.Sprintf("; %s is a folder, did you mean %s?", pattern, filepath.Join(pattern, "**"))
		}
	}
	if len(f.problems) > 0 {
		return "; " + f.problems[0]
	}

	return ""
}

// walk goes down from a folder by what is left of a pattern.
func (f *finder) walk(folder string, segments []string, depth int) error {
	if err := f.ctx.Err(); err != nil {
		return context.Cause(f.ctx)
	}
	segment, rest := segments[0], segments[1:]
	switch {
	case depth > maxDepth:
		f.problem(fmt.Errorf("%s: more than %d folders deep", folder, maxDepth))

		return nil
	case segment == "**":
		return f.below(folder, rest, depth)
	case !strings.ContainsAny(segment, `*?[\`):
		return f.step(filepath.Join(folder, segment), rest, depth)
	}
	entries, err := os.ReadDir(folder)
	f.problem(err)
	for _, entry := range entries {
		if matched, _ := filepath.Match(segment, entry.Name()); matched {
			if err := f.step(filepath.Join(folder, entry.Name()), rest, depth); err != nil {
				return err
			}
		}
	}

	return nil
}

// below takes a folder and all those in it as what "**" stands for.
func (f *finder) below(folder string, rest []string, depth int) error {
	info, err := os.Stat(folder)
	if err != nil || !info.IsDir() || slices.ContainsFunc(f.entered, func(been fs.FileInfo) bool { return os.SameFile(been, info) }) {
		f.problem(err)

		return nil
	}
	f.entered = append(f.entered, info)
	if len(f.entered) > maxFiles {
		return fmt.Errorf("%s: more than %d folders, expected a narrower pattern", folder, maxFiles)
	}
	if len(rest) > 0 {
		if err := f.walk(folder, rest, depth); err != nil {
			return err
		}
	}
	entries, err := os.ReadDir(folder)
	f.problem(err)
	for _, entry := range entries {
		path := filepath.Join(folder, entry.Name())
		info, err := os.Stat(path)
		switch {
		case err != nil:
			f.problem(err)
		case info.IsDir():
			err = f.walk(path, append([]string{"**"}, rest...), depth+1)
		case len(rest) == 0:
			err = f.add(path, info)
		}
		if err != nil && info != nil {
			return err
		}
	}

	return nil
}

// step goes on at a path that matched one segment.
func (f *finder) step(path string, rest []string, depth int) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		f.problem(err)

		return nil
	case len(rest) == 0 && !info.IsDir():
		return f.add(path, info)
	case len(rest) > 0 && info.IsDir():
		return f.walk(path, rest, depth+1)
	default:
		return nil
	}
}

// add notes a file, once however many names it has. The name that tells the format is kept: that of a snapshot, not that of its blob.
func (f *finder) add(path string, info fs.FileInfo) error {
	if !info.Mode().IsRegular() || info.Size() == 0 {
		return nil
	}
	if at := slices.IndexFunc(f.matches, func(m match) bool { return os.SameFile(m.info, info) }); at >= 0 {
		if filepath.Ext(f.matches[at].path) == "" && filepath.Ext(path) != "" {
			f.matches[at].path = path
		}

		return nil
	}
	if len(f.matches) == maxFiles {
		return fmt.Errorf("%s: more than %d files match, expected a narrower pattern", path, maxFiles)
	}
	f.matches = append(f.matches, match{path: path, info: info, pattern: f.pattern})

	return nil
}

func (f *finder) problem(err error) {
	if err != nil && len(f.problems) < maxProblems && !errors.Is(err, context.Canceled) {
		f.problems = append(f.problems, err.Error())
	}
}
