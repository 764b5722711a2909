package pages

// Settings is what a Prefetch is made of.
type Settings struct {
	// Paths are patterns of files, read in this order. "**" stands for any number of folders.
	Paths []string
	// Rate is the most bytes read in a second; 0: no limit.
	Rate int64
	// Limit is the most bytes brought into the page cache; 0: as many as there is memory for.
	Limit int64
	// Left says how much memory there is; nil: taken for plenty. It is called again and again while files are read.
	Left func() Room
	// Progress is called once a second while files are read; nil: not.
	Progress func(Report)
}

// Room is memory that can be taken without pushing out anything but page cache that nobody has used twice.
type Room struct {
	// Bytes that are left.
	Bytes int64
	// Of says what bounds them, as "the memory cgroup /pod of 256MiB".
	Of string
}
