// Package coldstart holds the measuring framework for cold starts: open-loop traffic, the ways clients deal with a cold server, and what is read off their samples.
// It refuses to know what is measured: requests come as bytes, servers as commands.
package coldstart
