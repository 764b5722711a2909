package pages

import (
	"fmt"

	"github.com/pilotlight-proxy/pilotlight/internal/units"
)

// Report is what a Prefetch has done so far. It shares nothing with it.
type Report struct {
	// Files are in the order in which they are read.
	Files []FileReport `json:"files"`
	// Bytes is the size of all files, Cached how much of them was in the page cache already, Read how much was brought there.
	Bytes  int64 `json:"bytes"`
	Cached int64 `json:"cached_bytes"`
	Read   int64 `json:"read_bytes"`
	// Paused says why nothing is read just now.
	Paused string `json:"paused,omitempty"`
	// Stopped says, in a sentence, why not all was read.
	Stopped string `json:"stopped,omitempty"`
	// Problems are matches that could not be looked at, and shards that an index names and nobody has.
	Problems []string `json:"problems,omitempty"`
}

// FileReport is one file.
type FileReport struct {
	Path   string `json:"path"`
	Format Format `json:"format"`
	Bytes  int64  `json:"bytes"`
	// Resident is the share of the file's pages that were in the page cache at the end, from 0 to 1; nil while nobody has looked, or where the kernel does not say.
	Resident *float64 `json:"resident"`
	// Note says why the file was read in plain order, or could not be read.
	Note string `json:"note,omitempty"`
}

// Resident is the share of all files that is in the page cache; ok is false where the kernel does not say it of each.
func (r Report) Resident() (share float64, ok bool) {
	if r.Bytes == 0 {
		return 0, false
	}
	for _, file := range r.Files {
		if file.Resident == nil {
			return 0, false
		}
		share += *file.Resident * float64(file.Bytes)
	}

	return share / float64(r.Bytes), true
}

// String is one line for a log.
func (r Report) String() string {
	text := fmt.Sprintf("%d files of %s: %s read, %s cached before", len(r.Files), about(r.Bytes), about(r.Read), about(r.Cached))
	if share, ok := r.Resident(); ok {
		text += fmt.Sprintf(", %.1f %% resident", 100*share)
	} else {
		text += ", residency unknown"
	}
	if r.Stopped != "" {
		text += "; stopped: " + r.Stopped
	}

	return text
}

// about rounds a number of bytes down, so that it reads well.
func about(bytes int64) units.Size {
	for _, unit := range []int64{1 << 30, 1 << 20, 1 << 10} {
		if bytes >= 10*unit {
			return units.Size(bytes / unit * unit)
		}
	}

	return units.Size(bytes)
}
