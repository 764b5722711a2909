package status_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/pilotlight-proxy/pilotlight/internal/status"
)

func TestTokenIsMadeOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run", "pilotlight", "token")
	tokens := make([]string, 16)
	var all sync.WaitGroup
	for i := range tokens {
		all.Go(func() {
			token, err := status.LoadToken(path)
			if err != nil {
				t.Error(err)
			}
			tokens[i] = token
		})
	}
	all.Wait()
	for _, token := range tokens {
		if !regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString(token) || token != tokens[0] {
			t.Fatalf("tokens %q: expected one of 32 bytes in hex for all", tokens)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("the file is %v, %v", info.Mode(), err)
	}
	if status.TokenIsExposed(path) {
		t.Error("a file of mode 0600 is exposed")
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestTokenThatIsThereIsReadAndNeverWritten(t *testing.T) {
	for _, test := range []struct{ name, text, expected, err string }{
		{"token", "mine", "mine", ""},
		{"with a newline", " mine\r\n", "mine", ""},
		{"empty", "", "", "empty"},
		{"white space", " \n", "", "empty"},
		{"too large", strings.Repeat("x", 4097), "", "larger than 4096 bytes"},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "token")
			if err := os.WriteFile(path, []byte(test.text), 0o640); err != nil {
				t.Fatal(err)
			}
			token, err := status.LoadToken(path)
			if token != test.expected || (err == nil) != (test.err == "") {
				t.Errorf("got %q, %v", token, err)
			}
			if err != nil && (!strings.Contains(err.Error(), test.err) || !strings.Contains(err.Error(), path)) {
				t.Errorf("error %q does not say %q and which file", err, test.err)
			}
			if after, err := os.ReadFile(path); err != nil || string(after) != test.text {
				t.Errorf("the file became %q, %v", after, err)
			}
			if !status.TokenIsExposed(path) {
				t.Error("a file of mode 0640 is not exposed")
			}
		})
	}
}

func TestTokenFromAMountedSecret(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "data"), []byte("mounted"), 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "token")
	if err := os.Symlink("data", path); err != nil {
		t.Fatal(err)
	}
	if token, err := status.LoadToken(path); token != "mounted" || err != nil {
		t.Errorf("got %q, %v", token, err)
	}
}

func TestTokenThatCannotBe(t *testing.T) {
	dir := t.TempDir()
	dangling := filepath.Join(dir, "dangling")
	if err := os.Symlink("nowhere", dangling); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, dangling, filepath.Join(dir, "file", "token")} {
		if token, err := status.LoadToken(path); err == nil || token != "" {
			t.Errorf("%s: got %q, %v", path, token, err)
		}
	}
}

func TestATokenOfAnotherUserIsNone(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte("chosen by somebody else"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(path, 12345, -1); err != nil {
		t.Skipf("only root can give a file away: %v", err)
	}
	if token, err := status.LoadToken(path); err == nil || !strings.Contains(err.Error(), "user 12345") {
		t.Errorf("got %q, %v", token, err)
	}
}
