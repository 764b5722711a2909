package memnet

import (
	"fmt"
	"os"
	"runtime"
)

// Loopback is where a test listens, at a port that the kernel chooses: at an address of this process alone, where there are so many. Ports of one address are used anew
// within seconds, and then the clients that another package's tests have left behind, which run meanwhile, ask this test's server.
func Loopback() string {
	if runtime.GOOS != "linux" {
		return "127.0.0.1:0" // the only one
	}
	id := os.Getpid()

	return fmt.Sprintf("127.%d.%d.%d:0", 64|id>>16&63, id>>8&255, id&255)
}
