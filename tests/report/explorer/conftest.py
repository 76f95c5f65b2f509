"""A folder of random runs on sprites, and a real server for it."""

import contextlib
import http.client
import json
import socket
import threading
import time
from types import SimpleNamespace

import pytest

from random_runs import random_run, write_run
from unweave.training import folder as files


@pytest.fixture(scope="session")
def folder(sprites, tmp_path_factory):
    """Three runs that open, one that diverged, one whose weights are broken."""
    parent = tmp_path_factory.mktemp("explorer") / "runs"
    runs = [random_run(data=sprites, seed=1, beta=4.0), random_run(data=sprites, seed=2, beta=16.0),
            random_run(data=sprites, method="joint_vae", categories="3", seed=3, num_latents=3)]
    for run, mig in zip(runs, (0.31, 0.12, 0.2)):
        write_run(run, parent, [("mig", mig), ("dci.disentanglement", mig / 2)])
    diverged = random_run(data=sprites, seed=4)
    files.write_json(write_run(diverged, parent) / "run.json", {"status": "diverged"})
    broken = random_run(data=sprites, seed=5)
    (write_run(broken, parent) / "weights.safetensors").write_bytes(b"not tensors at all")
    return SimpleNamespace(path=parent, runs=runs, diverged=diverged, broken=broken)


@pytest.fixture(scope="session")
def catalogue(folder, sprites):
    pytest.importorskip("fastapi")
    pytest.importorskip("onnx")
    from unweave.report.explorer.listing import find_runs

    return find_runs([folder.path], datasets={"sprites": sprites})


class Client:
    """Plain HTTP to a server at a port of this machine."""

    def __init__(self, port):
        self.port, self.url = port, f"http://127.0.0.1:{port}/"

    def __call__(self, path, method="GET", body=None, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, body=body, headers={
                name.replace("_", "-"): value for name, value in headers.items()})
            answer = connection.getresponse()
            return SimpleNamespace(status=answer.status, headers=answer.headers,
                                   body=answer.read())
        finally:
            connection.close()

    def json(self, path, **headers):
        return json.loads(self(path, **headers).body)


@contextlib.contextmanager
def serving(app):
    """A server in a thread, for as long as it is needed."""
    uvicorn = pytest.importorskip("uvicorn")
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        deadline = time.monotonic() + 20
        while not server.started and time.monotonic() < deadline:
            time.sleep(0.01)
        assert server.started
        yield Client(listening.getsockname()[1])
    finally:
        server.should_exit = True
        thread.join(60)  # what is still computed would not survive the end of the program
        listening.close()


@pytest.fixture(scope="session")
def serve():
    """The context manager `serving`, for tests with an application of their own."""
    return serving
