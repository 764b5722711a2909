package proxy

import (
	"runtime/debug"
	"testing"
	"testing/fstest"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

func TestResolveMemoryTakesWhatTheUserSet(t *testing.T) {
	t.Parallel()
	if got := ResolveMemory(units.Of(units.Size(7))); got != 7 {
		t.Errorf("got %d", got)
	}
	if got := ResolveMemory(units.Auto[units.Size]{}); got < 0 || got > 256<<20 {
		t.Errorf("auto is %d here", got)
	}
}

func TestAutoMemory(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	tests := []struct {
		name  string
		files map[string]string
		want  int64
	}{
		{"no cgroup", nil, 256 * mib},
		{"v2 without limit", map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n"}, 256 * mib},
		{"v2 in a container", map[string]string{
			"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "134217728\n", "sys/fs/cgroup/memory.current": "67108864\n",
			"sys/fs/cgroup/memory.stat": "anon 1\ninactive_file 33554432\n",
		}, 24 * mib},
		{"v2 parent is tighter", map[string]string{
			"proc/self/cgroup": "0::/pod/c\n", "sys/fs/cgroup/pod/c/memory.max": "max\n", "sys/fs/cgroup/pod/memory.max": "67108864\n", "sys/fs/cgroup/pod/memory.current": "0\n",
		}, 16 * mib},
		{"v2 nothing left", map[string]string{
			"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "100\n", "sys/fs/cgroup/memory.current": "200\n",
		}, 0},
		{"v1, path of the host", map[string]string{
			"proc/self/cgroup":                                 "5:cpu:/kubepods/x\n9:memory:/kubepods/x\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":       "134217728\n",
			"sys/fs/cgroup/memory/memory.usage_in_bytes":       "100663296\n",
			"sys/fs/cgroup/memory/memory.stat":                 "inactive_file 1\ntotal_inactive_file 0\n",
			"sys/fs/cgroup/memory/kubepods/unrelated/whatever": "1",
		}, 8 * mib},
		{"v2 grandparent is tighter than both", map[string]string{
			"proc/self/cgroup": "0::/a/b/c\n", "sys/fs/cgroup/a/b/c/memory.max": "536870912\n", "sys/fs/cgroup/a/b/memory.max": "max\n", "sys/fs/cgroup/a/memory.max": "33554432\n",
		}, 8 * mib},
		{"v1 nested, parent is tighter", map[string]string{
			"proc/self/cgroup": "9:memory:/pod/c\n", "sys/fs/cgroup/memory/pod/c/memory.limit_in_bytes": "9223372036854771712\n",
			"sys/fs/cgroup/memory/pod/memory.limit_in_bytes": "67108864\n", "sys/fs/cgroup/memory/pod/memory.usage_in_bytes": "33554432\n",
		}, 8 * mib},
		{"v1 without limit", map[string]string{"proc/self/cgroup": "9:memory:/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, 256 * mib},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			root := fstest.MapFS{}
			for name, text := range test.files {
				root[name] = &fstest.MapFile{Data: []byte(text)}
			}
			if got := autoMemory(root); got != test.want {
				t.Errorf("got %d, want %d", got, test.want)
			}
		})
	}
}

func TestBoundGarbage(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	t.Setenv("GOMEMLIMIT", "")
	BoundGarbage(64 << 20)
	if got := debug.SetMemoryLimit(-1); got != 160<<20 {
		t.Errorf("the collector works harder from %d bytes on, expected 160 MiB", got)
	}
	t.Setenv("GOMEMLIMIT", "1GiB")
	BoundGarbage(1 << 20)
	if got := debug.SetMemoryLimit(-1); got != 160<<20 {
		t.Errorf("the user's GOMEMLIMIT was overruled by %d bytes", got)
	}
}
