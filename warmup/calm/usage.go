package calm

import (
	"strconv"
	"strings"
	"time"
)

// usage is what the processors have done up to a moment; two of them tell the share in use between them.
type usage struct {
	at time.Time
	// busy and total are the node's, in ticks; total is 0 when nobody tells.
	busy, total float64
	// used is what our cgroup has used, and allowed how many processors it may use; allowed is 0 when it may use all there are, or nobody tells.
	used    time.Duration
	allowed float64
}

// usage reads the counters.
func (f files) usage() usage {
	now := usage{at: time.Now()}
	text, _ := f.text("proc/stat")
	line, _, _ := strings.Cut(text, "\n")
	if words := strings.Fields(line); len(words) >= 5 && words[0] == "cpu" {
		for i, word := range words[1:min(len(words), 9)] { // guests, which follow, are in the first two already
			ticks, _ := strconv.ParseFloat(word, 64)
			now.total += ticks
			if i != 3 && i != 4 { // idle, and idle while a disk works
				now.busy += ticks
			}
		}
	}
	now.allowed = f.allowed()
	if micros, ok := f.field("sys/fs/cgroup/cpu.stat", "usage_usec"); ok {
		now.used = time.Duration(micros) * time.Microsecond
	} else if nanos, ok := f.number("sys/fs/cgroup/cpuacct/cpuacct.usage", "sys/fs/cgroup/cpu,cpuacct/cpuacct.usage"); ok {
		now.used = time.Duration(nanos)
	} else {
		now.allowed = 0
	}

	return now
}

// allowed returns how many processors our cgroup may use; 0: all there are.
func (f files) allowed() float64 {
	if text, ok := f.text("sys/fs/cgroup/cpu.max"); ok {
		quota, period, _ := strings.Cut(text, " ")
		q, err := strconv.ParseFloat(quota, 64) // "max" is no number
		p, wrong := strconv.ParseFloat(period, 64)
		if err != nil || wrong != nil || p <= 0 {
			return 0
		}

		return q / p
	}
	quota, ok := f.number("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us")
	period, known := f.number("sys/fs/cgroup/cpu/cpu.cfs_period_us", "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us")
	if !ok || !known || quota <= 0 || period <= 0 {
		return 0
	}

	return quota / period
}

// since returns the shares in use between an earlier moment and this one.
func (u usage) since(earlier usage) []measure {
	var found []measure
	if u.total > earlier.total {
		found = append(found, measure{"processors of the node", (u.busy - earlier.busy) / (u.total - earlier.total), share})
	}
	if passed := u.at.Sub(earlier.at); u.allowed > 0 && earlier.allowed > 0 && passed > 0 {
		found = append(found, measure{"processors of our cgroup", (u.used - earlier.used).Seconds() / (u.allowed * passed.Seconds()), share})
	}

	return found
}
