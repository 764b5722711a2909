//go:build cgo && !noonnx

package onnx

/*
#cgo LDFLAGS: -ldl
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>

// The first two functions of OrtApiBase, which are the same in every version.
typedef struct {
	const void *(*get_api)(uint32_t version);
	const char *(*get_version)(void);
} api_base;

typedef const api_base *(*get_base)(void);

// probe opens a library and asks it for a version of its API. The library stays open: what it started cannot be stopped.
// It returns an error text, or NULL. found is its version, where its path, fits whether it has that API.
static const char *probe(const char *path, uint32_t version, const char **found, const char **where, int *fits) {
	void *handle = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
	if (handle == NULL)
		return dlerror();
	get_base get = (get_base)dlsym(handle, "OrtGetApiBase");
	if (get == NULL)
		return "it has no OrtGetApiBase: not ONNX Runtime";
	const api_base *base = get();
	if (base == NULL)
		return "OrtGetApiBase gave nothing";
	Dl_info info;
	if (dladdr((void *)get, &info) != 0)
		*where = info.dli_fname;
	*found = base->get_version();
	*fits = base->get_api(version) != NULL;
	return NULL;
}

// A provider may put handlers of its own in place of Go's, which crash a Go process at its next signal since they do not ask
// for the signal stack. keep_handlers remembers who handles what, restore_handlers puts them back.
#define SIGNALS 65
static struct sigaction kept[SIGNALS];

static void keep_handlers(void) {
	for (int i = 1; i < SIGNALS; i++)
		sigaction(i, NULL, &kept[i]);
}

static void restore_handlers(void) {
	struct sigaction now;
	for (int i = 1; i < SIGNALS; i++)
		if (i != SIGKILL && i != SIGSTOP && sigaction(i, NULL, &now) == 0 && now.sa_sigaction != kept[i].sa_sigaction)
			sigaction(i, &kept[i], NULL);
}
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"unsafe"

	ort "github.com/yalue/onnxruntime_go"
)

// apiVersion is the version of ONNX Runtime's C API that the binding asks for; apiRelease is the first release that has it.
const (
	apiVersion = 29
	apiRelease = "1.29.0"
)

// disableTelemetry is the variable by which ONNX Runtime keeps its use to itself.
const disableTelemetry = "ORT_DISABLE_TELEMETRY"

// environment is ONNX Runtime's, of which a process has one, for as long as it lives. To tear it down while anything runs
// would crash, so nothing ever does.
var environment struct {
	mu            sync.Mutex
	opened        bool
	path, version string
}

// openLibrary opens the first of the libraries that exists and fits, and sets ONNX Runtime up. Later calls return what the
// first good one opened.
func openLibrary(paths []string) (path, version string, err error) {
	environment.mu.Lock()
	defer environment.mu.Unlock()
	if environment.opened {
		return environment.path, environment.version, nil
	}
	// Releases from 1.30 on report their use to their maker, and leave files in the home and the temporary folder for it, unless told not to.
	if _, decided := os.LookupEnv(disableTelemetry); !decided {
		if err := os.Setenv(disableTelemetry, "1"); err != nil {
			return "", "", fmt.Errorf("switch ONNX Runtime's telemetry off: %w", err)
		}
	}
	var tried []string
	for _, candidate := range paths {
		path, version, err := probeLibrary(candidate)
		if err == nil {
			ort.SetSharedLibraryPath(candidate)
			err = ort.InitializeEnvironment(ort.WithLogLevelError())
		}
		if err != nil {
			tried = append(tried, fmt.Sprintf("%s: %v", candidate, err))

			continue
		}
		environment.opened, environment.path, environment.version = true, path, version

		return path, version, nil
	}

	return "", "", fmt.Errorf("open ONNX Runtime (version %s or newer needed; deploy/onnxruntime.sh fetches it, %s names another): %s",
		apiRelease, EnvLibrary, strings.Join(tried, "; "))
}

// probeLibrary finds out what a library is before the binding, whose errors are numbers, opens it.
func probeLibrary(candidate string) (path, version string, err error) {
	if strings.ContainsRune(candidate, '/') {
		if _, err := os.Stat(candidate); err != nil {
			return "", "", errors.New("no such file")
		}
	}
	name := C.CString(candidate)
	defer C.free(unsafe.Pointer(name))
	var found, where *C.char
	var fits C.int
	text := C.probe(name, apiVersion, &found, &where, &fits) //nolint:gocritic // what cgo makes of it is not ours
	if text != nil {
		return "", "", errors.New(strings.TrimPrefix(C.GoString(text), candidate+": "))
	}
	path, version = C.GoString(where), C.GoString(found)
	if fits == 0 {
		return "", "", fmt.Errorf("version %s found, %s or newer needed", version, apiRelease)
	}

	return path, version, nil
}

// keepSignals runs load and afterwards puts the process's signal handlers back.
func keepSignals(load func() error) error {
	signals.Lock()
	defer signals.Unlock()
	C.keep_handlers()
	defer C.restore_handlers()

	return load()
}

// signals guards the handlers that are remembered in C.
var signals sync.Mutex
