package main

import "runtime"

// ballastSize is how many bytes the garbage collector believes to be in use beyond what is.
const ballastSize = 5 << 20

// ballast keeps the collector from running every few hundred requests, as it would for the few megabytes that are in use when nothing is held. Nobody writes to it, so it
// takes address space and no memory; what it costs is the garbage that may pile up meanwhile, as much as its own size. Once bodies are held it no longer matters,
// which a higher GOGC would.
var ballast []byte

func loadBallast() {
	ballast = make([]byte, ballastSize)
	runtime.KeepAlive(ballast)
}
