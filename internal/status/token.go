package status

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// tokenLimit is how many bytes a token file may have: it is somebody else's file when it is larger.
const tokenLimit = 4 << 10

// LoadToken returns the bearer token of the file, without the white space around it. A file that is there is read and never written; an empty one is an error.
// Where there is none, one is made: 32 random bytes in hex, mode 0600, its folder 0700. It appears whole or not at all, and of several processes that make it at the same time all get the same.
func LoadToken(path string) (string, error) {
	token, err := ReadToken(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return token, err
	}
	if err := createToken(path); err != nil && !errors.Is(err, fs.ErrExist) { // another process was faster: its token is as good
		return "", fmt.Errorf("create token file: %w", err)
	}

	return ReadToken(path)
}

// TokenIsExposed tells whether others than the file's owner may read it. A secret mounted by Kubernetes is, by default, so that this is worth a warning and no more.
func TokenIsExposed(path string) bool {
	info, err := os.Stat(path)

	return err == nil && info.Mode().Perm()&0o077 != 0
}

// ReadToken returns the bearer token of a file that is there.
func ReadToken(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("read token file: %w", err)
	}
	if !info.Mode().IsRegular() { // opening a pipe would wait for a writer
		return "", fmt.Errorf("read token file %s: not a regular file", path)
	}
	// The default lies in a folder that anybody may make first: a token that somebody else chose is none.
	if owner, known := info.Sys().(*syscall.Stat_t); known && owner.Uid != 0 && int(owner.Uid) != os.Getuid() {
		return "", fmt.Errorf("read token file %s: it belongs to user %d, expected %d or root", path, owner.Uid, os.Getuid())
	}
	file, err := os.Open(path) //nolint:gosec // the operator says which
	if err != nil {
		return "", fmt.Errorf("read token file: %w", err)
	}
	defer func() { _ = file.Close() }() // only read
	text, err := io.ReadAll(io.LimitReader(file, tokenLimit+1))
	if err != nil {
		return "", fmt.Errorf("read token file: %w", err)
	}
	if len(text) > tokenLimit {
		return "", fmt.Errorf("read token file %s: larger than %d bytes", path, tokenLimit)
	}
	token := strings.TrimSpace(string(text))
	if token == "" {
		return "", fmt.Errorf("read token file %s: empty", path)
	}

	return token, nil
}

// createToken writes the token under another name and links it to its own, which fails if that is taken.
func createToken(path string) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil { //nolint:gosec // the operator says where
		return err
	}
	draft, err := os.CreateTemp(dir, ".token-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(draft.Name()) }() //nolint:gosec // a name of our own making; a draft that stays behind is no harm
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails
	_, err = io.WriteString(draft, hex.EncodeToString(secret)+"\n")
	if err = errors.Join(err, draft.Sync(), draft.Close()); err != nil {
		return err
	}

	return os.Link(draft.Name(), path)
}
