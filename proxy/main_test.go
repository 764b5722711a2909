package proxy

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(clientVariable) != "" {
		os.Exit(benchmarkClient())
	}
	if os.Getenv(uploadVariable) != "" {
		os.Exit(uploadProxy())
	}
	goleak.VerifyTestMain(m, lingering)
}
