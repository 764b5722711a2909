// Command ballast writes the digit classifier, weighed down so that it starts like a big model.
//
//	go run ./examples/digits/ballast -size 300MB -o model.onnx
package main

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/pilotlight-proxy/pilotlight/examples/digits"
)

func main() {
	size := flag.String("size", "300MB", "`bytes` of ballast, with its unit: MB, MiB, GB or GiB")
	out := flag.String("o", "model.onnx", "`file` of the model; its weights go to the same name with .data behind it")
	flag.Parse()
	bytes, err := parse(*size)
	if err == nil {
		err = digits.WriteBallast(*out, bytes)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "ballast:", err)
		os.Exit(1)
	}
}

func parse(size string) (int64, error) {
	for _, unit := range []struct {
		name  string
		bytes float64
	}{{"MiB", 1 << 20}, {"GiB", 1 << 30}, {"MB", 1e6}, {"GB", 1e9}} {
		if number, ok := strings.CutSuffix(size, unit.name); ok {
			value, err := strconv.ParseFloat(strings.TrimSpace(number), 64)

			return int64(value * unit.bytes), err
		}
	}

	return 0, fmt.Errorf("parse size %q: expected a number with its unit, such as 300MB", size)
}
