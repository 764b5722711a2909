// Package calm holds the Watch that says whether the machine has room for work that can wait, by what the kernel tells about processors, memory and pressure.
// It refuses to know what that work is.
package calm
