package warmup_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if address := os.Getenv(listenVariable); address != "" {
		os.Exit(serveOneBackend(address))
	}
	goleak.VerifyTestMain(m)
}
