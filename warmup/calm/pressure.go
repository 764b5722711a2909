package calm

import (
	"strconv"
	"strings"
)

// pressures returns the share of the last 10 s, in percent, in which some task waited. A container sees the node's files and those of its own cgroup.
func (f files) pressures() []measure {
	var found []measure
	for _, source := range []struct{ path, name string }{
		{"proc/pressure/cpu", "processor pressure of the node"},
		{"proc/pressure/memory", "memory pressure of the node"},
		{"sys/fs/cgroup/cpu.pressure", "processor pressure of our cgroup"},
		{"sys/fs/cgroup/memory.pressure", "memory pressure of our cgroup"},
	} {
		text, _ := f.text(source.path)
		if stalled, ok := someAvg10(text); ok {
			found = append(found, measure{source.name, stalled, percent})
		}
	}

	return found
}

// someAvg10 reads "some avg10=1.23 avg60=…".
func someAvg10(text string) (float64, bool) {
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) < 2 || words[0] != "some" {
			continue
		}
		value, ok := strings.CutPrefix(words[1], "avg10=")
		n, err := strconv.ParseFloat(value, 64)

		return n, ok && err == nil
	}

	return 0, false
}
