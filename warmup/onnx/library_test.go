//go:build cgo && !noonnx

package onnx

import (
	"context"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unsafe"
)

// compile makes a shared library of C source.
func compile(t *testing.T, source string) string {
	t.Helper()
	folder := t.TempDir()
	file, library := filepath.Join(folder, "a.c"), filepath.Join(folder, "libonnxruntime.so")
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "cc", "-shared", "-fPIC", "-o", library, file).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}

	return library
}

// C56: a library that is not there, too old, no library, or for another processor is named with what is wrong with it.
func TestC56LibraryThatDoesNotFit(t *testing.T) {
	text := filepath.Join(t.TempDir(), "libonnxruntime.so")
	if err := os.WriteFile(text, []byte("this is not a library"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, path string
		want       []string
	}{
		{"missing", "/none/libonnxruntime.so", []string{"no such file"}},
		{"unknown to the loader", "libnone-of-that-name.so", []string{"cannot open shared object file"}},
		{"text file", text, []string{"file too short"}},
		{"other processor", foreign(t), []string{"cannot open shared object file|wrong ELF class|invalid ELF|ELF file"}},
		{"another library", compile(t, "int x;"), []string{"OrtGetApiBase", "not ONNX Runtime"}},
		{"older", compile(t, `
			static const void *get_api(unsigned version) { return version > 24 ? 0 : "api"; }
			static const char *get_version(void) { return "1.24.1"; }
			static const struct { const void *(*a)(unsigned); const char *(*v)(void); } base = {get_api, get_version};
			const void *OrtGetApiBase(void) { return &base; }`), []string{"version 1.24.1 found", "1.29.0 or newer needed"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, _, err := probeLibrary(test.path)
			if err == nil {
				t.Fatal("it was opened")
			}
			for _, text := range test.want {
				found := false
				for one := range strings.SplitSeq(text, "|") {
					found = found || strings.Contains(err.Error(), one)
				}
				if !found {
					t.Errorf("got %q, expected %q", err, text)
				}
			}
		})
	}
}

// foreign writes the head of a library for a processor that nobody has here.
func foreign(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	binary.LittleEndian.PutUint16(content[18:], 22) // S/390
	path := filepath.Join(t.TempDir(), "libonnxruntime.so")
	if err := os.WriteFile(path, content[:1<<20], 0o600); err != nil {
		t.Fatal(err)
	}

	return path
}

// The whole way, in a process of its own: an error and no stack.
func TestC56NoLibraryIsAnErrorNotACrash(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), openEnv+"=/none/libonnxruntime.so:"+compile(t, "int x;"))
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Fatalf("it was opened: %s", out)
	}
	for _, want := range []string{"open ONNX Runtime", "1.29.0 or newer", "deploy/onnxruntime.sh", "/none/libonnxruntime.so: no such file", "not ONNX Runtime"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("got %q, expected %q", out, want)
		}
	}
	if strings.Contains(string(out), "goroutine ") {
		t.Errorf("it crashed: %s", out)
	}
}

func TestFindLibraryTakesWhatIsNamed(t *testing.T) {
	none := func(string) string { return "" }
	named := func(name string) string { return map[string]string{EnvLibrary: "/env.so"}[name] }
	if got := FindLibrary("/flag.so", named); len(got) != 1 || got[0] != "/flag.so" {
		t.Errorf("explicit: got %v", got)
	}
	if got := FindLibrary("", named); len(got) != 1 || got[0] != "/env.so" {
		t.Errorf("environment: got %v", got)
	}
	root := t.TempDir()
	library := filepath.Join(root, ".cache", "onnxruntime", "libonnxruntime.so")
	if err := os.MkdirAll(filepath.Dir(library), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(library, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	below := filepath.Join(root, "a", "b")
	if err := os.MkdirAll(below, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(below)
	got := FindLibrary("", none)
	if len(got) != 3 || !strings.HasSuffix(got[0], library) || got[1] != "libonnxruntime.so" || got[2] != "libonnxruntime.so.1" {
		t.Errorf("upward: got %v", got)
	}
}

// A provider that takes a signal for itself does not keep it.
func TestSignalHandlersOfProvidersAreUndone(t *testing.T) {
	// What the kernel calls sigaction, on amd64 and arm64.
	type action struct{ handler, flags, restorer, mask uintptr }
	sigaction := func(set, get *action) {
		t.Helper()
		if _, _, errno := syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(syscall.SIGUSR2), uintptr(unsafe.Pointer(set)), uintptr(unsafe.Pointer(get)), 8, 0, 0); errno != 0 {
			t.Fatal(errno)
		}
	}
	var before, during, after action
	sigaction(nil, &before)
	err := keepSignals(func() error {
		const ignore = 1
		sigaction(&action{handler: ignore}, nil)
		sigaction(nil, &during)

		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	sigaction(nil, &after)
	if during.handler == before.handler {
		t.Fatal("the handler was not replaced: the test would prove nothing")
	}
	if after.handler != before.handler || after.flags != before.flags {
		t.Errorf("got %+v, expected %+v", after, before)
	}
}

// A caller who leaves after the binding panicked must not reach the options of a run that is over.
func TestRunThatPanicsLetsGoOfItsCaller(t *testing.T) {
	needLibrary(t)
	ctx, leave := context.WithCancel(t.Context())
	func() {
		defer func() {
			if recover() == nil {
				t.Error("a session without a model ran")
			}
		}()
		_ = (&session{}).runUntil(ctx, nil, nil)
	}()
	leave()
}

// TestTheLibraryKeepsItsUseToItself starts a worker of our own with a home and a temporary folder to itself: telemetry would leave files there.
func TestTheLibraryKeepsItsUseToItself(t *testing.T) {
	if _, _, err := openLibrary(FindLibrary("", os.Getenv)); err != nil {
		t.Fatal(err)
	}
	if got := os.Getenv(disableTelemetry); got != "1" {
		t.Errorf("%s is %q after the library was opened, want 1", disableTelemetry, got)
	}
}
