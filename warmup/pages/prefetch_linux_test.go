package pages_test

import (
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pilotlight-proxy/pilotlight/warmup/pages"
)

const mib = 1 << 20

// write makes a file that is on the disk and not in the page cache.
func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close() //nolint:errcheck // a test's
	if _, err := file.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := file.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		t.Fatal(err)
	}
	if share := resident(t, path); share > 0.01 {
		t.Skipf("%.0f %% of a file cannot be dropped from the page cache: the folder for temporary files is on no disk", 100*share)
	}
}

func link(t *testing.T, target, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
}

func run(t *testing.T, s pages.Settings) pages.Report {
	t.Helper()
	reader := pages.New(s)
	if err := reader.Run(t.Context()); err != nil {
		t.Fatal(err)
	}

	return reader.Report()
}

// names returns the files of a report, relative to a folder.
func names(t *testing.T, folder string, report pages.Report) []string {
	t.Helper()
	var all []string
	for _, file := range report.Files {
		name, err := filepath.Rel(folder, file.Path)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, name)
	}

	return all
}

// TestSnapshotOfHuggingFace reads what a cache of Hugging Face looks like: names that are links to blobs, an index, a second copy of the weights, a link that leads
// nowhere and one that leads in a circle.
func TestSnapshotOfHuggingFace(t *testing.T) {
	t.Parallel()
	hub := t.TempDir()
	model := filepath.Join(hub, "models--a--b")
	blob := func(name string, content []byte) {
		write(t, filepath.Join(model, "blobs", name), content)
	}
	header := []byte(`{"w":{"dtype":"U8","shape":[3145728],"data_offsets":[0,3145728]}}`)
	shard := slices.Concat(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header, make([]byte, 3*mib))
	blob("0index", []byte(`{"weight_map":{"x":"model-00002.safetensors","y":"model-00001.safetensors","z":"model-00003.safetensors"}}`))
	blob("1second", shard)
	blob("2first", slices.Concat(shard[:8], shard[8:]))
	blob("3copy", make([]byte, 3*mib))
	blob("4config", []byte("{}"))
	for name, target := range map[string]string{
		"model.safetensors.index.json": "0index", "model-00001.safetensors": "2first", "model-00002.safetensors": "1second", "consolidated.safetensors": "3copy",
		"config.json": "4config", "gone.bin": "nowhere",
	} {
		link(t, "../../blobs/"+target, filepath.Join(model, "snapshots", "abc", name))
	}
	link(t, "../..", filepath.Join(model, "snapshots", "abc", "circle"))
	report := run(t, pages.Settings{Paths: []string{hub + "/**"}})
	snapshot := "models--a--b/snapshots/abc/"
	want := []string{
		snapshot + "config.json", snapshot + "model.safetensors.index.json", snapshot + "model-00001.safetensors", snapshot + "model-00002.safetensors", snapshot + "consolidated.safetensors",
	}
	if got := names(t, hub, report); !slices.Equal(got, want) {
		t.Errorf("read in the order %q, want %q", got, want)
	}
	if share, ok := report.Resident(); !ok || share != 1 {
		t.Errorf("%v, %t of it is resident: %v", share, ok, report)
	}
	for _, file := range report.Files {
		if got := resident(t, file.Path); got < 1 {
			t.Errorf("%.2f of %s are resident by the test's own look", got, file.Path)
		}
	}
	problems := strings.Join(report.Problems, "\n")
	for _, says := range []string{"gone.bin", "model-00003.safetensors"} {
		if !strings.Contains(problems, says) {
			t.Errorf("nothing is said of %s: %s", says, problems)
		}
	}
	again := run(t, pages.Settings{Paths: []string{hub + "/**"}})
	if again.Read != 0 || again.Cached < report.Bytes {
		t.Errorf("a second run: %v, expected to find all cached", again)
	}
}

// TestONNXBringsItsExternalData is given the model alone.
func TestONNXBringsItsExternalData(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	tensor := func(location string) string { return "\x6a" + short("\x0a\x08location\x12"+short(location)) }
	graph := "\x2a" + short(tensor("second.data")) + "\x2a" + short(tensor("first.data")) + "\x2a" + short(tensor("../outside"))
	write(t, filepath.Join(folder, "m.onnx"), []byte("\x3a"+short(graph)))
	write(t, filepath.Join(folder, "first.data"), make([]byte, 2*mib))
	write(t, filepath.Join(folder, "second.data"), make([]byte, 2*mib))
	report := run(t, pages.Settings{Paths: []string{folder + "/*.onnx"}})
	if got, want := names(t, folder, report), []string{"m.onnx", "second.data", "first.data"}; !slices.Equal(got, want) {
		t.Errorf("read in the order %q, want %q", got, want)
	}
	if share, ok := report.Resident(); !ok || share != 1 {
		t.Errorf("not all is resident: %v", report)
	}
	if problems := strings.Join(report.Problems, "\n"); !strings.Contains(problems, "../outside: expected a file within its folder") {
		t.Errorf("a file outside is not refused: %s", problems)
	}
}

// short is a text of protobuf below 128 bytes.
func short(text string) string { return string(rune(len(text))) + text }

func TestDamagedFilesAreReadInPlainOrder(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, "m.gguf")
	write(t, path, slices.Concat([]byte("GGUF\x03\x00\x00\x00"), []byte(strings.Repeat("\xff", 16)), make([]byte, 3*mib)))
	report := run(t, pages.Settings{Paths: []string{path}})
	if note := report.Files[0].Note; !strings.Contains(note, "read gguf at offset") || !strings.Contains(note, "read in plain order") {
		t.Errorf("the note is %q", note)
	}
	if share, ok := report.Resident(); !ok || share != 1 {
		t.Errorf("not all is resident: %v", report)
	}
}

func TestNothingToRead(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	tests := []struct{ name, pattern, says string }{
		{"no file", folder + "/*.gguf", "no file matches " + folder + "/*.gguf"},
		{"a folder", folder, "is a folder, did you mean " + folder + "/**?"},
		{"relative", "models/**", `path "models/**": expected one that begins with /`},
		{"two stars in a name", "/models/**.gguf", "** stands for whole folders"},
		{"no pattern", "/models/[", "syntax error in pattern"},
	}
	for _, test := range tests {
		if err := pages.New(pages.Settings{Paths: []string{test.pattern}}).Run(t.Context()); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: got %v, want %q", test.name, err, test.says)
		}
	}
}

// TestPrefetchLeavesMemoryToOthers is told of too little memory: at once, for a part, and by the user. The control is told of enough.
func TestPrefetchLeavesMemoryToOthers(t *testing.T) {
	t.Parallel()
	const size = 96 * mib
	tests := []struct {
		name        string
		left, limit int64
		most        int64 // that may be read
		says        string
	}{
		{name: "enough", left: 1 << 40, most: size},
		{name: "none", left: 10 * mib, says: "nothing was read: the memory cgroup /x leaves 10MiB, of which 16MiB stay free"},
		{name: "half", left: 64 * mib, most: 48 * mib, says: "MiB: the memory cgroup /x leaves"},
		{name: "by the user", left: 1 << 40, limit: 20 * mib, most: 20 * mib, says: "MiB: its memory is limited to 20MiB"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "w.bin")
			write(t, path, make([]byte, size))
			report := run(t, pages.Settings{Paths: []string{path}, Limit: test.limit, Left: func() pages.Room { return pages.Room{Bytes: test.left, Of: "the memory cgroup /x"} }})
			if report.Read > test.most || (test.most > 0 && report.Read < test.most/2) {
				t.Errorf("%d MiB were read, expected at most %d: %v", report.Read/mib, test.most/mib, report)
			}
			if !strings.Contains(report.Stopped, test.says) || (test.says == "") != (report.Stopped == "") {
				t.Errorf("it says %q, expected %q", report.Stopped, test.says)
			}
			if got, limit := resident(t, path), float64(test.most+mib)/size; got > limit {
				t.Errorf("%.2f of the file are resident, expected at most %.2f", got, limit)
			}
		})
	}
}

// TestRateAndDeadline runs out of time, since the rate does not allow more.
func TestRateAndDeadline(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "w.bin")
	write(t, path, make([]byte, 16*mib))
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	reader := pages.New(pages.Settings{Paths: []string{path}, Rate: 10 * mib})
	if err := reader.Run(ctx); err != nil {
		t.Fatalf("that time runs out is no failure: %v", err)
	}
	report := reader.Report()
	if report.Read == 0 || report.Read > 6*mib || !strings.Contains(report.Stopped, "deadline exceeded") {
		t.Errorf("%v, expected some 4 MiB in 300 ms and a word about it", report)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := pages.New(pages.Settings{Paths: []string{path}}).Run(cancelled); err == nil {
		t.Error("a cancelled run is no success")
	}
}
