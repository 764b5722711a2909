package main

import (
	"bufio"
	"os"
	"strconv"
	"strings"

	"github.com/pilotlight-proxy/pilotlight/proxy"
	"github.com/pilotlight-proxy/pilotlight/warmup/pages"
)

// unlimited is more memory than there is, in bytes.
const unlimited = 1 << 62

// memoryLeft returns the room that the tightest memory cgroup and the machine leave.
func memoryLeft() pages.Room {
	left, group := proxy.MemoryLeft()
	room := pages.Room{Bytes: left, Of: "the memory cgroup " + group}
	if machine := memoryAvailable(); machine < room.Bytes {
		room = pages.Room{Bytes: machine, Of: "the machine"}
	}

	return room
}

// memoryAvailable returns what the kernel says can be had without swapping, in bytes; where it says nothing, more than there is.
func memoryAvailable() int64 {
	file, err := os.Open("/proc/meminfo")
	if err != nil {
		return unlimited
	}
	defer file.Close() //nolint:errcheck // it was only read
	for lines := bufio.NewScanner(file); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 || fields[0] != "MemAvailable:" {
			continue
		}
		if kilobytes, err := strconv.ParseInt(fields[1], 10, 64); err == nil {
			return kilobytes << 10
		}
	}

	return unlimited
}
