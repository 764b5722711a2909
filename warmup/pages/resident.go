package pages

import "os"

// residency is what the kernel says of a part of a file.
type residency struct {
	// pages are in the page cache, evicted were pushed out of it not long ago.
	pages, evicted int64
	// known is false where the kernel does not say.
	known bool
}

// pageSize is the kernel's, in bytes.
var pageSize = int64(os.Getpagesize())

// bytes is the size of the pages of a part, cut off at its length.
func (r residency) bytes(length int64) int64 { return min(length, r.pages*pageSize) }
