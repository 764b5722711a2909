package pages

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ask has the kernel begin to read a part of a file.
func ask(file *os.File, part Range) error {
	return unix.Fadvise(int(file.Fd()), part.Offset, part.Length, unix.FADV_WILLNEED)
}

// look says how much of a part of a file is in the page cache: by cachestat(2), and by mincore(2) where there is none or it is forbidden.
func look(file *os.File, part Range) residency {
	if part.Length <= 0 {
		return residency{known: true}
	}
	within := unix.CachestatRange{Off: uint64(part.Offset), Len: uint64(part.Length)} //nolint:gosec // neither is negative
	var found unix.Cachestat_t
	if err := unix.Cachestat(uint(file.Fd()), &within, &found, 0); err == nil {
		return residency{pages: int64(found.Cache), evicted: int64(found.Recently_evicted), known: true} //nolint:gosec // pages of a file
	}

	return lookByMincore(file, part)
}

// mincoreWindow bounds what is mapped at once, in bytes.
const mincoreWindow = 1 << 30

// lookByMincore asks mincore(2). Of a file that this process neither owns nor may write, the kernel says that every page is there, so that it tells nobody what
// others read: that is no proof.
func lookByMincore(file *os.File, part Range) residency {
	if !mayKnow(file) {
		return residency{}
	}
	found := residency{known: true}
	// A mapping begins at a page.
	end := part.Offset + part.Length
	for start := part.Offset / pageSize * pageSize; start < end; start += mincoreWindow {
		pages, err := countMapped(file, start, min(mincoreWindow, end-start))
		if err != nil {
			return residency{}
		}
		found.pages += pages
	}

	return found
}

func countMapped(file *os.File, start, length int64) (pages int64, err error) {
	mapped, err := unix.Mmap(int(file.Fd()), start, int(length), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return 0, err
	}
	defer unix.Munmap(mapped) //nolint:errcheck // it was mapped just now
	states := make([]byte, (length+pageSize-1)/pageSize)
	_, _, failed := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&mapped[0])), uintptr(length), uintptr(unsafe.Pointer(&states[0]))) //nolint:gosec // a byte for each page of the mapping, as the call wants it
	if failed != 0 {
		return 0, failed
	}
	for _, state := range states {
		pages += int64(state & 1)
	}

	return pages, nil
}

func mayKnow(file *os.File) bool {
	info, err := file.Stat()
	if err != nil {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)

	return ok && (int(stat.Uid) == os.Geteuid() || unix.Faccessat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", file.Fd()), unix.W_OK, unix.AT_EACCESS) == nil)
}

// errNoDevice means that a file is on no block device of its own: an overlay, a network, memory.
var errNoDevice = errors.New("no block device")

// deviceOf returns the file of the kernel that counts what is read from the device that a file is on.
func deviceOf(info os.FileInfo) (string, error) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", errNoDevice
	}
	path := fmt.Sprintf("/sys/dev/block/%d:%d/stat", unix.Major(stat.Dev), unix.Minor(stat.Dev))
	if _, err := os.Stat(path); err != nil {
		return "", errNoDevice
	}

	return path, nil
}
