package main

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// asProgram makes the test binary be the program itself, so that tests start real processes, and those start their workers.
const asProgram = "TEST_AS_PILOTLIGHT"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	// gRPC's own xDS client watches the files of its TLS for as long as the process lives.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("google.golang.org/grpc/credentials/tls/certprovider/pemfile.(*watcher).run"))
}
