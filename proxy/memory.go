package proxy

import (
	"bytes"
	"io/fs"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

const (
	// maxAutoMemory is what "auto" means where memory is plenty, in bytes.
	maxAutoMemory = 256 << 20
	// besideBodies is what a proxy needs beside the bodies that it holds, in bytes: connections, stacks, and itself.
	besideBodies = 32 << 20
	// noLimit is a limit from which on cgroup v1 means "none", in bytes.
	noLimit = 1 << 60
)

// ResolveMemory returns the budget for held bodies, in bytes: what the user set, else min(256MiB, a quarter of what the memory cgroup leaves).
func ResolveMemory(a units.Auto[units.Size]) int64 {
	if a.Set {
		return int64(a.Value)
	}

	return autoMemory(os.DirFS("/"))
}

// BoundGarbage has the garbage collector of this process work harder as soon as it has twice the budget for held bodies, in bytes, and a little for all else: left to itself it lets
// as much garbage pile up as there is in use, of which the bodies are only a part. Far below that nothing changes. A GOMEMLIMIT of the user's stays in force.
func BoundGarbage(budget int64) {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(2*min(budget, noLimit) + besideBodies)
	}
}

// autoMemory computes "auto" from the files of cgroup v1 or v2 below root.
func autoMemory(root fs.FS) int64 {
	left, _ := memoryLeft(root)
	if left >= noLimit {
		return maxAutoMemory
	}

	return min(maxAutoMemory, max(0, left/4))
}

// MemoryLeft returns how much memory the tightest memory cgroup of this process leaves, page cache that can be dropped included, in bytes, and which one that is;
// where there is no limit, more than any machine has, and "".
func MemoryLeft() (left int64, group string) { return memoryLeft(os.DirFS("/")) }

func memoryLeft(root fs.FS) (left int64, group string) {
	left = noLimit
	for _, m := range memoryGroups(root) {
		// The limit of an ancestor counts as well: the tightest rules.
		for dir := m.path; ; dir = path.Dir(dir) {
			if here := m.left(root, dir); here < left {
				left, group = here, dir
			}
			if dir == "/" || dir == "." {
				break
			}
		}
	}

	return left, group
}

// memoryGroup is the memory cgroup of this process in one hierarchy.
type memoryGroup struct {
	mount, path           string
	limit, usage, inUseBy string // the names of its files
}

// memoryGroups reads /proc/self/cgroup.
func memoryGroups(root fs.FS) []memoryGroup {
	text, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return nil
	}
	var groups []memoryGroup
	for line := range strings.Lines(string(text)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case len(fields) != 3:
		case fields[0] == "0" && fields[1] == "":
			groups = append(groups, memoryGroup{"sys/fs/cgroup", fields[2], "memory.max", "memory.current", "inactive_file"})
		case strings.Contains(","+fields[1]+",", ",memory,"):
			groups = append(groups, memoryGroup{"sys/fs/cgroup/memory", fields[2], "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"})
		}
	}

	return groups
}

// left returns how much memory dir's limit leaves, page cache that can be dropped included. In a container the path may be the host's and not exist; the mount's root is ours then.
func (m memoryGroup) left(root fs.FS, dir string) int64 {
	at := path.Join(m.mount, dir)
	limit, ok := number(root, path.Join(at, m.limit))
	if !ok || limit >= noLimit {
		return noLimit
	}
	usage, _ := number(root, path.Join(at, m.usage))
	stat, err := fs.ReadFile(root, path.Join(at, "memory.stat"))
	if err == nil {
		for line := range bytes.Lines(stat) {
			if value, found := bytes.CutPrefix(line, []byte(m.inUseBy+" ")); found {
				cache, _ := strconv.ParseInt(string(bytes.TrimSpace(value)), 10, 64)
				usage -= cache
			}
		}
	}

	return max(0, limit-max(0, usage))
}

// number reads a file that holds one number; "max" is none.
func number(root fs.FS, name string) (value int64, ok bool) {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return 0, false
	}
	value, err = strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)

	return value, err == nil
}
