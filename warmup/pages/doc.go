// Package pages holds what reads weight files into the page cache, in the order in which loaders read them, and the proof that they are there.
// It refuses to know about plans, backends, and who will read the files afterwards.
package pages
