package calm

// unlimited is more memory than any limit means: cgroup v1 writes a number near 2^63 for none.
const unlimited = 1 << 60

// memory returns the share of the memory in use, of the node's and of our cgroup's, where they are known. Page cache that nobody uses counts as free: the weights
// that were read ahead would look like pressure else.
func (f files) memory() []measure {
	var found []measure
	total, ok := f.field("proc/meminfo", "MemTotal")
	available, known := f.field("proc/meminfo", "MemAvailable")
	if ok && known && total > 0 {
		found = append(found, measure{"memory of the node", 1 - available/total, share})
	}
	limit, ok := f.number("sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes") // "max" is no number
	used, known := f.number("sys/fs/cgroup/memory.current", "sys/fs/cgroup/memory/memory.usage_in_bytes")
	if !ok || !known || limit <= 0 || limit >= unlimited {
		return found
	}
	idle, ok := f.field("sys/fs/cgroup/memory.stat", "inactive_file")
	if !ok {
		idle, _ = f.field("sys/fs/cgroup/memory/memory.stat", "total_inactive_file")
	}

	return append(found, measure{"memory of our cgroup", max(used-idle, 0) / limit, share})
}
