package pages

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// small is the size up to which a file is taken for a configuration, an index or a vocabulary, which loaders read before any weights.
const small = 1 << 20

// arrange puts files into the order in which loaders open them, and adds those that an index or a model names and no pattern matched.
func arrange(f *finder) {
	f.addShards()
	slices.SortStableFunc(f.matches, func(a, b match) int {
		return cmp.Or(
			cmp.Compare(a.pattern, b.pattern),
			compareFlags(a.unused, b.unused),
			compareFlags(a.info.Size() > small, b.info.Size() > small),
			strings.Compare(a.path, b.path),
		)
	})
	f.addExternal()
}

func compareFlags(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}

// addShards reads the indexes. Weights of the same kind that an index does not name are a second copy, which loaders leave alone: they come last.
func (f *finder) addShards() {
	for _, index := range slices.Clone(f.matches) {
		stem, isIndex := strings.CutSuffix(index.path, ".index.json")
		if !isIndex {
			continue
		}
		shards, err := readFile(index.path)
		if err != nil {
			f.problem(&fs.PathError{Op: "read index", Path: index.path, Err: err})

			continue
		}
		folder := filepath.Dir(index.path)
		for _, shard := range shards {
			f.addNamed(index, folder, shard)
		}
		for i, m := range f.matches {
			if filepath.Dir(m.path) == folder && filepath.Ext(m.path) == filepath.Ext(stem) && !slices.Contains(shards, filepath.Base(m.path)) {
				f.matches[i].unused = true
			}
		}
	}
}

// addNamed notes a file that another one names, if it is within the folder.
func (f *finder) addNamed(by match, folder, name string) {
	path := filepath.Join(folder, name)
	if !filepath.IsLocal(name) {
		f.problem(&fs.PathError{Op: "look for what is named in " + by.path, Path: name, Err: errors.New("expected a file within its folder")})

		return
	}
	info, err := os.Stat(path)
	if err != nil {
		f.problem(err)

		return
	}
	f.pattern = by.pattern
	f.problem(f.add(path, info))
}

// addExternal puts the files of external data behind the models that name them.
func (f *finder) addExternal() {
	for _, model := range slices.Clone(f.matches) {
		if filepath.Ext(model.path) != ".onnx" {
			continue
		}
		file, err := os.Open(model.path)
		if err != nil {
			continue // it is told where the file is to be read
		}
		tensors, err := readONNX(file, model.info.Size())
		_ = file.Close()
		if err != nil {
			f.problem(&fs.PathError{Op: "look for external data", Path: model.path, Err: err})

			continue
		}
		f.placeExternal(model, tensors)
	}
}

// placeExternal puts the files that the tensors are in behind their model.
func (f *finder) placeExternal(model match, tensors []external) {
	folder := filepath.Dir(model.path)
	var behind []match
	var seen []string
	for _, tensor := range tensors {
		if slices.Contains(seen, tensor.location) {
			continue
		}
		seen = append(seen, tensor.location)
		f.addNamed(model, folder, tensor.location)
		at := slices.IndexFunc(f.matches, func(m match) bool { return m.path == filepath.Join(folder, tensor.location) })
		if at < 0 {
			continue
		}
		found := f.matches[at]
		for _, part := range tensors {
			if part.location == tensor.location {
				found.parts = append(found.parts, part.part)
			}
		}
		f.matches = slices.Delete(f.matches, at, at+1)
		behind = append(behind, found)
	}
	at := slices.IndexFunc(f.matches, func(m match) bool { return m.path == model.path })
	f.matches = slices.Insert(f.matches, at+1, behind...)
}

// readFile reads an index.
func readFile(path string) ([]string, error) {
	file, err := os.Open(path) //nolint:gosec // a file that the user's patterns match
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // it was only read

	return readIndex(file)
}
