// Package units holds the scalar types that a user writes in a configuration: durations, sizes, addresses, "auto" and the words of enums.
// It refuses to know which key they stand under.
package units
