package onnx

import (
	"os"
	"path/filepath"
)

// EnvLibrary is the environment variable that names the ONNX Runtime library.
const EnvLibrary = "PILOTLIGHT_ONNXRUNTIME"

// fetched is where deploy/onnxruntime.sh puts the library.
var fetched = filepath.Join(".cache", "onnxruntime", "libonnxruntime.so")

// FindLibrary returns where to look for the ONNX Runtime library, best first. explicit, then the environment, allow of nothing
// else; otherwise it is what deploy/onnxruntime.sh put in the repository around the working directory or the executable, and
// last the names that the loader knows.
func FindLibrary(explicit string, getenv func(string) string) []string {
	if explicit != "" {
		return []string{explicit}
	}
	if named := getenv(EnvLibrary); named != "" {
		return []string{named}
	}
	var found []string
	add := func(path string) {
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			found = append(found, path)
		}
	}
	if here, err := os.Getwd(); err == nil {
		for {
			add(filepath.Join(here, fetched))
			above := filepath.Dir(here)
			if above == here {
				break
			}
			here = above
		}
	}
	if program, err := os.Executable(); err == nil {
		if target, err := filepath.EvalSymlinks(program); err == nil {
			program = target
		}
		add(filepath.Join(filepath.Dir(program), fetched))
		add(filepath.Join(filepath.Dir(filepath.Dir(program)), fetched))
	}

	return append(found, "libonnxruntime.so", "libonnxruntime.so.1")
}
