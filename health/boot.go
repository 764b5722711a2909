package health

import (
	"os"
	"strings"
)

// bootFile holds what tells this boot of the machine from every other one.
const bootFile = "/proc/sys/kernel/random/boot_id"

// BootIdentity returns a function that says who listens in words that may be kept beyond the life of this process: a [ListenerIdentity] is made of numbers that the
// kernel counts from its boot, so the boot is named with it. The answer is "" where either is not known.
func BootIdentity(identity func() string) func() string {
	return func() string {
		sockets := identity()
		boot, err := os.ReadFile(bootFile)
		if sockets == "" || err != nil {
			return ""
		}

		return strings.TrimSpace(string(boot)) + " " + sockets
	}
}
