"""Prints what a client saw, a line for each thing checked, as the script that runs the clients reads it."""

import time


def check(name, ok, seen):
    print("check", name, "ok" if ok else "failed", " ".join(str(seen).split()), sep="\t", flush=True)


def figure(name, value):
    print("figure", name, value, sep="\t", flush=True)


class Arrivals:
    """When each piece of a stream came, counted from the request."""

    def __init__(self):
        self.started = time.monotonic()
        self.at = []

    def came(self):
        self.at.append(time.monotonic() - self.started)

    def judge(self, name, least, prefix):
        """A stream that somebody gathered on the way arrives at its end, all at once: the first piece late, and all together."""
        if not self.at:
            check(name, False, "nothing came")
            return
        first, last = self.at[0], self.at[-1]
        apart = sum(later - earlier > 0.0001 for earlier, later in zip(self.at, self.at[1:]))
        check(name, len(self.at) >= least and first < last / 3 and apart >= least / 2,
              f"{len(self.at)} pieces, {apart} apart from the one before, first after {1000 * first:.0f} ms, last after {1000 * last:.0f} ms")
        figure(prefix + "_pieces", len(self.at))
        figure(prefix + "_first_ms", round(1000 * first, 1))
        figure(prefix + "_last_ms", round(1000 * last, 1))
