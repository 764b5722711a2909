"""Processes on loopback: the server under test, Pilotlight before it, and requests to either. Only the standard library is used here."""

import http.client
import json
import os
import signal
import socket
import subprocess
import time

START_LIMIT = 180  # seconds until a server, or Pilotlight, has to be ready

given = set()


def free():
    """A port that nobody has, and that was not given out before: who got it may not listen yet."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        if port not in given:
            given.add(port)
            return port


class Process:
    """A process in a group of its own, which ends with it."""

    def __init__(self, command, log, environment, cwd):
        with open(log, "ab") as out:
            self.child = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, cwd=cwd,
                                          env={**os.environ, **environment}, start_new_session=True)

    def signal(self, number):
        try:
            os.killpg(self.child.pid, number)
        except ProcessLookupError:
            pass

    def end(self):
        self.signal(signal.SIGTERM)
        try:
            self.child.wait(15)
        except subprocess.TimeoutExpired:
            pass
        self.kill()

    def kill(self):
        self.signal(signal.SIGKILL)
        self.child.wait()


class Failure(Exception):
    pass


def ask(port, method, path, body=None, timeout=120):
    """One request over a connection of its own: (seconds, status, body)."""
    began = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request(method, path, body, {"Content-Type": "application/json"} if body else {})
        answer = connection.getresponse()
        content = answer.read()
    finally:
        connection.close()
    return time.perf_counter() - began, answer.status, content


def answers(port, path, status=200):
    try:
        return (ask(port, "GET", path, timeout=5)[1] == 200) == (status == 200)
    except (OSError, http.client.HTTPException):
        return status != 200


def until(what, limit, test, process=None):
    """Waits for the test, and how long it took; a process that ends meanwhile makes that vain."""
    began = time.monotonic()
    while not test():
        if process and process.child.poll() is not None:
            raise Failure(f"{what}: not before the server ended, exit status {process.child.returncode}")
        if time.monotonic() - began > limit:
            raise Failure(f"{what}: not within {limit} s")
        time.sleep(0.01)
    return time.monotonic() - began


def infer(port, shape):
    seconds, status, body = ask(port, "POST", shape.path, shape.body)
    if status != 200:
        raise Failure(f"POST {shape.path}: status {status}: {body[:200]!r}")
    return seconds, body


class Pilot:
    """Pilotlight before the server at a port."""

    def __init__(self, args, work, name, backend, settings):
        self.data, self.health, self.admin = free(), free(), free()
        local = "127.0.0.1"
        config = work / f"{name}.yaml"
        config.write_text(
            f'version: 1\ndrain: {{settle: 0s}}\nlisten: {{data: "{local}:{self.data}", health: "{local}:{self.health}", '
            f'admin: "{local}:{self.admin}", admin_token_file: "{work}/{name}.token"}}\n' + settings.replace("{backend}", f"{local}:{backend}") + "\n")
        runtime = work / f"{name}.runtime"
        runtime.mkdir()
        self.process = Process([args.pilotlight, "run", "-c", str(config)], work / f"{name}.log", {"XDG_RUNTIME_DIR": str(runtime)}, work)

    def status(self):
        return json.loads(ask(self.admin, "GET", "/statusz")[2])

    def ready(self, server):
        return until("readyz says 200", START_LIMIT, self.answers, server)

    def answers(self):
        if self.process.child.poll() is not None:
            raise Failure(f"Pilotlight has ended, exit status {self.process.child.returncode}")
        return answers(self.health, "/readyz")
