//go:build !linux

package health

import "time"

// ListenerStart is known on Linux only.
func ListenerStart(string) (time.Time, bool) { return time.Time{}, false }
