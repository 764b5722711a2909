package health

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const tcpHead = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"

// tcpLine is a line of /proc/net/tcp.
func tcpLine(address, state string, inode int) string {
	return fmt.Sprintf("   0: %s 00000000:0000 %s 00000000:00000000 00:00000000 00000000  1000        0 %d 1 00000000d7414ab8 100 0 0 10 0\n", address, state, inode)
}

// procNet writes files in the form of /proc/net and returns their folder.
func procNet(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	return dir
}

func TestParseTCPAddress(t *testing.T) {
	for _, test := range []struct{ name, text, expected string }{
		{"loopback", "0100007F:1F90", "127.0.0.1:8080"},
		{"wildcard", "00000000:07E8", "0.0.0.0:2024"},
		{"pod", "0A01A8C0:0050", "192.168.1.10:80"},
		{"v6 loopback", "00000000000000000000000001000000:1F90", "[::1]:8080"},
		{"v6", "B80D0120000000000000000001000000:FFFF", "[2001:db8::1]:65535"},
		{"v4 mapped", "0000000000000000FFFF00000100007F:0050", "127.0.0.1:80"},
		{"v6 wildcard", "00000000000000000000000000000000:0050", "[::]:80"},
		{"no port", "0100007F", "invalid AddrPort"},
		{"port too large", "0100007F:1FFFF", "invalid AddrPort"},
		{"odd", "0100007:0050", "invalid AddrPort"},
		{"no whole word", "010000:0050", "invalid AddrPort"},
		{"two words", "0100007F0100007F:0050", "invalid AddrPort"},
		{"nothing", "", "invalid AddrPort"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, ok := parseTCPAddress(test.text)
			if ok != (test.expected != "invalid AddrPort") || (ok && got != netip.MustParseAddrPort(test.expected)) {
				t.Errorf("got %s, %v", got, ok)
			}
		})
	}
}

func TestReadTCPStopsAfterTheListeners(t *testing.T) {
	text := tcpHead + strings.Repeat(tcpLine("0100007F:0050", "01", 7), 100) + tcpLine("0100007F:0050", "0A", 8) +
		strings.Repeat(tcpLine("0100007F:0050", "01", 9), 1000) + tcpLine("0100007F:0050", "0A", 10)
	found := readTCP(filepath.Join(procNet(t, map[string]string{"tcp": text}), "tcp"), 80)
	if len(found) != 1 || found[0].inode != 8 {
		t.Errorf("found %v, expected the listener that stands among the first", found)
	}
}

func TestReadUnix(t *testing.T) {
	dir := procNet(t, map[string]string{"unix": `Num       RefCount Protocol Flags    Type St Inode Path
0000000027f63b6b: 00000003 00000000 00000000 0001 03   644
00000000ad5173c7: 00000003 00000000 00000000 0001 03 10643 /run/m.sock
00000000ad5173c8: 00000002 00000000 00010000 0001 01 10645 /run/m.sock
00000000ad5173c9: 00000002 00000000 00010000 0001 01    70 /run/with two  spaces
00000000ad5173ca: 00000002 00000000 00010000 0001 01    71 @abstract
00000000ad5173cb: 00000002 00000000 00010000
nonsense
`})
	for _, test := range []struct{ path, expected string }{
		{"/run/m.sock", "10645"},
		{"/run/with two  spaces", "70"},
		{"@abstract", "71"},
		{"/run/other", ""},
		{"", ""},
	} {
		if got := strings.Join(readUnix(dir+"/unix", test.path), ","); got != test.expected {
			t.Errorf("%q is listened at by %q, expected %q", test.path, got, test.expected)
		}
	}
	if got := readUnix(dir+"/absent", "/run/m.sock"); got != nil {
		t.Errorf("no file: %v", got)
	}
}

func FuzzProcNet(f *testing.F) {
	f.Add(tcpHead + tcpLine("0100007F:0050", "0A", 8))
	f.Add("0: 0100007F:0050 a 0A b c d e f 1\n")
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text string) {
		if err := os.WriteFile(dir+"/file", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, one := range readTCP(dir+"/file", 80) {
			if !one.ip.IsValid() || one.inode == 0 {
				t.Errorf("found %v", one)
			}
		}
		_ = readUnix(dir+"/file", "/run/m.sock")
	})
}
