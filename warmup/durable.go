package warmup

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// durableLimit bounds the files that Pilotlight keeps for its next process, in bytes.
const durableLimit = 1 << 20

// replaceFile puts a file in the place of the one of that name: a reader, or a process that starts after this one was killed, finds the old one or the new one as a
// whole. Only its owner may read it. Its folder is made where there is none.
func replaceFile(path string, text []byte) error {
	if len(text) > durableLimit {
		return fmt.Errorf("write %s: %d bytes, expected at most %d", path, len(text), durableLimit)
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	draft, err := os.CreateTemp(dir, "."+filepath.Base(path)+"-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(draft.Name()) }() // it is gone when all went well
	_, err = draft.Write(text)
	if err = errors.Join(err, draft.Sync(), draft.Close()); err != nil {
		return err
	}
	if err := os.Rename(draft.Name(), path); err != nil {
		return err
	}
	folder, err := os.Open(dir) //nolint:gosec // the operator says where
	if err != nil {
		return err
	}

	return errors.Join(folder.Sync(), folder.Close())
}

// readDurable reads what replaceFile has written. Anybody may have made the default folder first: a file that is somebody else's, a link, or a pipe that would keep
// the reader waiting, is refused.
func readDurable(path string) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0) //nolint:gosec // the operator says which
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // only read
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("read %s: not a regular file", path)
	}
	if owner, known := info.Sys().(*syscall.Stat_t); known && owner.Uid != 0 && int(owner.Uid) != os.Getuid() {
		return nil, fmt.Errorf("read %s: it belongs to user %d, expected %d or root", path, owner.Uid, os.Getuid())
	}
	text, err := io.ReadAll(io.LimitReader(file, durableLimit+1))
	if err == nil && len(text) > durableLimit {
		err = fmt.Errorf("read %s: larger than %d bytes", path, durableLimit)
	}

	return text, err
}
