package warmup_test

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// drop takes a file out of the page cache; where it is on no disk, the test ends.
func drop(t *testing.T, path string) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close() //nolint:errcheck // a test's
	var left unix.Cachestat_t
	if err := errors.Join(file.Sync(), unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED), unix.Cachestat(uint(file.Fd()), &unix.CachestatRange{}, &left, 0)); err != nil || left.Cache > 0 {
		t.Skipf("the file cannot be dropped from the page cache: %v", err)
	}
}
