// Command bench measures what the hop through Pilotlight costs, beside a direct call, the standard library's reverse proxy and other proxies, and exits with 1 when a promise is broken.
// It refuses to know how Pilotlight is made: it is a program with a configuration file, and every participant is a process of its own.
package main
