"""The explorer's server: the page, the runs' graphs and facts, and three questions.

Files are served from a list of names that is made at the start; runs and data sets are looked up by
id in the catalogue. What is opened is safetensors and parquet of the runs, and pictures that
`upload` decodes. The three questions are: images by their factors, a picture framed, and, for
browsers that cannot run the graphs themselves, codes and images of a run.
"""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from fastapi import FastAPI, Request, Response
from starlette.concurrency import run_in_threadpool

from unweave.report.explorer.facts import Album, information_record, run_record
from unweave.report.explorer.gate import COOKIE, HEADERS, Gate
from unweave.report.explorer.listing import Catalogue, NotListed
from unweave.report.explorer.upload import MAX_BYTES, read_picture
from unweave.report.explorer.vendor import FILES, LICENCE
from unweave.training.onnx_graph import decoder_onnx, encoder_onnx
from unweave.types import UserError

PAGE = Path(__file__).parent / "page"
TYPES = {".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8",
         ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml", ".wasm": "application/wasm",
         ".txt": "text/plain; charset=utf-8", ".json": "application/json", ".png": "image/png",
         ".onnx": "application/octet-stream"}
MOST_CODES = 512
"""Codes or images in one request to decode or encode."""

_MOST_FLOATS = 1 << 25


def list_record(catalogue: Catalogue, *, title: str, runtime: str, is_static: bool) -> dict:
    """What the page reads first. `runtime` says where graphs are run: browser or server."""
    return {"title": title, "runtime": runtime, "static": is_static,
            "higher": catalogue.higher_is_better, "runs": catalogue.records()}


class Answers:
    """What is asked of a catalogue, each answer made once."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        self.album = lru_cache(maxsize=16)(self._album)
        self.facts = self._once(lambda run: json.dumps(run_record(run)).encode())
        self.information = self._once(lambda run: json.dumps(information_record(run)).encode())
        self.encoder = self._once(encoder_onnx)
        self.decoder = self._once(decoder_onnx)

    def _once(self, make: Callable[..., bytes]) -> Callable[[str], bytes]:
        cached = lru_cache(maxsize=32)(lambda run_id: make(self.catalogue.run(run_id)))
        lock = threading.Lock()

        def answer(run_id: str) -> bytes:
            with lock:  # two who ask at once get one answer; other kinds of answers do not wait
                return cached(run_id)

        return answer

    def _album(self, key: str) -> Album:
        return Album(self.catalogue.dataset(key))

    def picked(self, key: str, wanted: dict[int, int], seed: int) -> dict[str, Any]:
        """Images of a data set with given classes, with their sheet."""
        album = self.album(key)
        index = album.pick(wanted, seed=seed)
        sheet = base64.b64encode(album.sheet(index)).decode() if len(index) else ""
        return album.record(index) | {"sheet": sheet}

    def at(self, key: str, index: int) -> dict[str, Any]:
        """One image of a data set by its number."""
        album = self.album(key)
        rows = album.dataset.space.checked([index])
        return album.record(rows) | {"sheet": base64.b64encode(album.sheet(rows)).decode()}

    def decoded(self, run_id: str, payload: bytes) -> bytes:
        """Images of codes, float32 in and out."""
        run = self.catalogue.run(run_id)
        return run.decode(_floats(payload, (len(run.num_values),))).astype("<f4").tobytes()

    def encoded(self, run_id: str, payload: bytes) -> bytes:
        """Codes of images, float32 in and out."""
        run = self.catalogue.run(run_id)
        return run.encode(_floats(payload, run.dataset.image_shape)).astype("<f4").tobytes()


def make_app(catalogue: Catalogue, gate: Gate, *, vendor: Path | None,
             title: str = "unweave explorer") -> FastAPI:
    """The application. Without `vendor`, the folder of onnxruntime-web, the server decodes."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    answers = Answers(catalogue)
    pages = {path.name: path for path in sorted(PAGE.iterdir()) if path.suffix in TYPES}
    libraries = {name: vendor / name for name in (*FILES, LICENCE)} if vendor else {}
    listing = json.dumps(list_record(catalogue, title=title, is_static=False,
                                     runtime="browser" if vendor else "server")).encode()
    makers = {"run.json": answers.facts, "information.json": answers.information,
              "encoder.onnx": answers.encoder, "decoder.onnx": answers.decoder}

    @app.middleware("http")
    async def guard(request: Request, call_next: Callable[..., Any]) -> Response:
        query = request.query_params.get("token")
        refused = gate.refusal(request.headers, query, request.cookies.get(COOKIE))
        if refused is not None:
            response: Response = _problem(*refused)
        elif query is not None and request.url.path == "/":
            # The token leaves the address bar, and with it history and copied links.
            response = Response(status_code=303, headers={"Location": "/"})
            if gate.token is not None:
                response.set_cookie(COOKIE, gate.token, httponly=True, samesite="strict")
        else:
            response = await call_next(request)
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        return response

    @app.exception_handler(UserError)
    async def bad_input(request: Request, error: UserError) -> Response:
        return _problem(404 if isinstance(error, NotListed) else 422, str(error))

    @app.exception_handler(404)
    async def nothing(request: Request, error: Exception) -> Response:
        return _problem(404, "there is nothing here")

    @app.get("/")
    def index() -> Response:
        return _file(pages["index.html"])

    @app.get("/{name}")
    def page_file(name: str) -> Response:
        return _file(pages[name]) if name in pages else _problem(404, "there is nothing here")

    @app.get("/vendor/{name}")
    def vendor_file(name: str) -> Response:
        if name not in libraries:
            return _problem(404, "there is nothing here")
        return _file(libraries[name], cache="max-age=86400")

    @app.get("/data/runs.json")
    def runs() -> Response:
        return Response(listing, media_type=TYPES[".json"])

    @app.get("/data/runs/{run_id}/{part}")
    def run_part(run_id: str, part: str) -> Response:
        if part not in makers:
            return _problem(404, "there is nothing here")
        return Response(makers[part](run_id), media_type=TYPES[Path(part).suffix])

    @app.get("/data/images/{key}.json")
    def sample_record(key: str) -> Response:
        album = answers.album(key)
        return _json(album.record(album.sample()))

    @app.get("/data/images/{key}.png")
    def sample_sheet(key: str) -> Response:
        album = answers.album(key)
        return Response(album.sheet(album.sample()), media_type=TYPES[".png"])

    @app.get("/api/images/{key}")
    def pick(request: Request, key: str, seed: int = 0, index: int | None = None) -> Response:
        if index is not None:
            return _json(answers.at(key, index))
        given = {k: v for k, v in request.query_params.items() if k.startswith("f")}
        # Nine digits at most: numbers of thousands are an error of Python's own.
        if not all(re.fullmatch(r"f\d{1,9}=\d{1,9}", f"{k}={v}") for k, v in given.items()):
            raise UserError("factors are asked for as f0=3: positions and classes are numbers")
        return _json(answers.picked(key, {int(k[1:]): int(v) for k, v in given.items()},
                                    abs(seed) % 2**31))

    @app.post("/api/frame/{key}")
    async def frame(request: Request, key: str) -> Response:
        payload = await _body(request, MAX_BYTES)
        shape = (await run_in_threadpool(answers.album, key)).dataset.image_shape
        pixels = await run_in_threadpool(read_picture, payload, shape)
        return Response(pixels.tobytes(), media_type=TYPES[".onnx"])

    @app.post("/api/runs/{run_id}/{what}")
    async def ask(request: Request, run_id: str, what: str) -> Response:
        questions = {"decode": answers.decoded, "encode": answers.encoded}
        if what not in questions:
            return _problem(404, "there is nothing here")
        payload = await _body(request, _MOST_FLOATS)
        found = await run_in_threadpool(partial(questions[what], run_id, payload))
        return Response(found, media_type=TYPES[".onnx"])

    return app


def _file(path: Path, cache: str = "no-cache") -> Response:
    return Response(path.read_bytes(), media_type=TYPES[path.suffix],
                    headers={"Cache-Control": cache})


def _json(record: dict[str, Any]) -> Response:
    return Response(json.dumps(record), media_type=TYPES[".json"])


def _problem(status: int, sentence: str) -> Response:
    return Response(json.dumps({"error": sentence}), status_code=status,
                    media_type=TYPES[".json"])


async def _body(request: Request, most: int) -> bytes:
    """The body of a request, given up as soon as it is too large."""
    too_large = UserError(f"what was sent is larger than the {most // 1_000_000} MB that are "
                          "allowed: send less")
    said = request.headers.get("content-length", "0")
    if not said.isdecimal() or int(said) > most:
        raise too_large
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > most:
            raise too_large
        parts.append(part)
    return b"".join(parts)


def _floats(payload: bytes, shape: tuple[int, ...]) -> np.ndarray:
    each = 4 * int(np.prod(shape))
    if not payload or len(payload) % each:
        raise UserError(f"expected float32 numbers of the shape {list(shape)}, one after another, "
                        f"got {len(payload)} bytes")
    if len(payload) // each > MOST_CODES:
        raise UserError(f"at most {MOST_CODES} are answered at once, got {len(payload) // each}")
    values = np.frombuffer(payload, dtype="<f4").reshape(-1, *shape).copy()  # torch may write
    if not np.isfinite(values).all():
        raise UserError("numbers must be finite")
    return values
