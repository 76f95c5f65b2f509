"""How long does the explorer take from a moved slider to the picture, in a real browser?

    python bench/explorer.py [architecture ...]

Runs of one step on dSprites are served as `unweave explore` serves them, and chromium moves a
slider by key, one step after another. A time is from the browser's own stamp of the event to the
picture on its canvas; the screen shows it with the next frame. The goal is a median below 30 ms.
"""

from __future__ import annotations

import shutil
import socket
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import uvicorn
from playwright.sync_api import sync_playwright

import unweave
from unweave.report.explorer.gate import Gate
from unweave.report.explorer.listing import find_runs
from unweave.report.explorer.server import make_app
from unweave.report.explorer.vendor import find_or_fetch

FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync"]
MOVES = 200
NAMES = ("conv64-small", "conv64", "kaddah2020", "higgins2017-dense")


def serve(folder: Path) -> tuple[uvicorn.Server, threading.Thread, int]:
    app = make_app(find_runs([folder]), Gate.of("127.0.0.1", None), vendor=find_or_fetch())
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    while not server.started:
        time.sleep(0.05)
    return server, thread, listening.getsockname()[1]


def measure(page, address: str) -> tuple[np.ndarray, float]:
    began = time.monotonic()
    page.goto("about:blank")
    page.goto(address)
    page.wait_for_selector("body[data-ready=yes]", timeout=120_000)
    opened = time.monotonic() - began
    page.wait_for_selector(".panel-a[data-strips]", state="attached", timeout=120_000)
    page.locator(".panel-a .latent input").first.focus()
    page.evaluate("performance.clearMeasures()")
    for move in range(MOVES):
        page.keyboard.press("ArrowRight" if move // 40 % 2 else "ArrowLeft")
    page.wait_for_timeout(300)
    entries = "performance.getEntriesByName('slider-to-picture').map(entry => entry.duration)"
    return np.array(page.evaluate(entries)), opened


def main() -> None:
    names = sys.argv[1:] or NAMES
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as driver:
        runs = {name: unweave.train("beta_vae", "dsprites", steps=1, architecture=name,
                                    precision="float32", out=Path(scratch) / "runs")[0]
                for name in names}
        server, thread, port = serve(Path(scratch) / "runs")
        chromium = driver.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        page = chromium.new_page()
        print(f"chromium {chromium.version}, {MOVES} moves of a slider by key")
        for name, run in runs.items():
            times, opened = measure(page, f"http://127.0.0.1:{port}/#a={run.run_id}")
            late = np.quantile(times, 0.95)
            print(f"{name:20} median {np.median(times):6.1f} ms   95 % {late:6.1f} ms   "
                  f"pictures {len(times)}   page ready after {opened:.1f} s")
        chromium.close()
        server.should_exit = True
        thread.join()  # what it still computes would not survive the end of the program


if __name__ == "__main__":
    main()
