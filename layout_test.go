package main_test

import (
	"debug/elf"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/pilotlight-proxy/pilotlight"

// arrows says which of our packages each of our packages may import, besides internal/units, which everyone may.
// "warmup/*" stands for every package below warmup. The package at the root may import everything.
var arrows = map[string][]string{
	"internal/config": {"proxy", "warmup", "health", "circuit", "xds", "internal/inject", "internal/telemetry"},
	"internal/status": {"health", "proxy", "circuit", "warmup"},
	"proxy":           {"proxy/upstream", "health", "circuit"},
	"xds":             {"health"},
	"warmup":          {"warmup/*"},
	// warmup/inference is generated protobuf code and nothing else: the words that the worker and the dialects share.
	"warmup/onnx":    {"warmup/inference"},
	"warmup/backend": {"warmup/inference"},
}

// rooms are the packages that may exist, besides those below examples and deploy.
var rooms = []string{
	"proxy", "proxy/upstream",
	"warmup", "warmup/backend", "warmup/cuda", "warmup/calm", "warmup/onnx", "warmup/pages", "warmup/steady", "warmup/inference",
	"health", "circuit", "xds",
	"internal/config", "internal/units", "internal/telemetry", "internal/status", "internal/inject", "internal/coldstart", "internal/memnet", "internal/bench",
}

// forbidden names modules that the proxy must not link.
var forbidden = []string{"k8s.io/client-go", "github.com/gorilla/mux"}

func TestImportArrows(t *testing.T) {
	t.Parallel()
	for dir, files := range sources(t) {
		if dir == "." || strings.HasPrefix(dir, "examples") || strings.HasPrefix(dir, "deploy") {
			continue
		}
		for _, file := range files {
			for _, imported := range imports(t, filepath.Join(dir, file)) {
				target, ours := strings.CutPrefix(imported, module+"/")
				if !ours {
					continue
				}
				if !mayImport(dir, target, strings.HasSuffix(file, "_test.go")) {
					t.Errorf("%s/%s imports %s: no such arrow in DESIGN section 2", dir, file, target)
				}
			}
		}
	}
}

func mayImport(from, to string, test bool) bool {
	if to == "internal/units" || (test && (to == "internal/memnet" || to == from)) {
		return true
	}

	return slices.ContainsFunc(arrows[from], func(allowed string) bool {
		below, wild := strings.CutSuffix(allowed, "/*")

		return to == allowed || (wild && strings.HasPrefix(to, below+"/"))
	})
}

func TestEveryPackageHasItsRoom(t *testing.T) {
	t.Parallel()
	for dir := range sources(t) {
		if dir == "." || strings.HasPrefix(dir, "examples/") || strings.HasPrefix(dir, "deploy/") {
			continue
		}
		if !slices.Contains(rooms, dir) {
			t.Errorf("package %s: no such room in DESIGN section 2", dir)
		}
	}
}

func TestEveryPackageHasOneDoc(t *testing.T) {
	t.Parallel()
	for dir, files := range sources(t) {
		var documented []string
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, file), nil, parser.PackageClauseOnly|parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			if parsed.Doc != nil {
				documented = append(documented, file)
			}
		}
		if onlyTests := !slices.ContainsFunc(files, func(f string) bool { return !strings.HasSuffix(f, "_test.go") }); onlyTests {
			continue
		}
		if len(documented) != 1 {
			t.Errorf("package %s has its doc in %d files %v, expected exactly one", dir, len(documented), documented)
		}
	}
}

func TestHeavyDependenciesStayOut(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatalf("go list -deps: %v", err)
	}
	linked := strings.Fields(string(out))
	if !slices.Contains(linked, module+"/proxy") {
		t.Fatalf("go list -deps does not even name %s/proxy: the check below would prove nothing", module)
	}
	for _, dependency := range linked {
		for _, heavy := range forbidden {
			if dependency == heavy || strings.HasPrefix(dependency, heavy+"/") {
				t.Errorf("the binary links %s", dependency)
			}
		}
	}
}

// A single reachable function that calls a method by a name known only at run time makes the linker keep every exported method of every type, those of all messages of
// Envoy among them. So the program is built by the command that builds it, and asked for such a method, which nobody calls.
func TestTheLinkerLeavesOutWhatNobodyCalls(t *testing.T) {
	t.Parallel()
	const message = "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3.(*Cluster)."
	printed, err := exec.CommandContext(t.Context(), "make", "--no-print-directory", "--dry-run", "build").Output()
	if err != nil {
		t.Fatalf("make --dry-run build: %v", err)
	}
	build, isBuild := strings.CutSuffix(strings.TrimSpace(string(printed)), " -o bin/pilotlight .")
	if !isBuild {
		t.Fatalf("make builds by %q: the check below does not know how to do that", printed)
	}
	program := filepath.Join(t.TempDir(), "pilotlight")
	if said, err := exec.CommandContext(t.Context(), "sh", "-c", build+" -o "+program+" .").CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %.1000s", build, err, said)
	}
	file, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	symbols, err := file.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	has := func(method string) bool {
		return slices.ContainsFunc(symbols, func(s elf.Symbol) bool { return s.Name == message+method })
	}
	if !has("ProtoReflect") {
		t.Fatalf("%sProtoReflect is not there: the check below would prove nothing", message)
	}
	if has("GetAltStatName") {
		t.Errorf("%sGetAltStatName is there, which nobody calls; \"%s -ldflags=-dumpdep\" marks those who call methods by names that the linker does not know with <ReflectMethod>", message, build)
	}
}

// sources maps each folder with Go files, relative to the repository's root, to its Go files. Modules of their own are left out.
func sources(t *testing.T) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && name != "." {
			_, ownModule := os.Stat(filepath.Join(name, "go.mod"))
			if strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata" || ownModule == nil {
				return filepath.SkipDir
			}
		}
		if !entry.IsDir() && strings.HasSuffix(name, ".go") {
			dir := path.Dir(filepath.ToSlash(name))
			found[dir] = append(found[dir], entry.Name())
		}

		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) < 5 {
		t.Fatalf("found Go files in %d folders only: the checks would prove nothing", len(found))
	}

	return found
}

func imports(t *testing.T, file string) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	paths := make([]string, 0, len(parsed.Imports))
	for _, spec := range parsed.Imports {
		paths = append(paths, strings.Trim(spec.Path.Value, `"`))
	}

	return paths
}
