// Package upstream holds connections to one HTTP/1.1 backend and makes exchanges over them: one owner per connection, at most one delivery per body.
// It refuses to know why a request is sent, when it may be, and what its answer means.
package upstream
