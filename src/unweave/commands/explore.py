"""`unweave explore`: the page on which one moves latents, served here or written as files."""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from typing import Annotated

import typer

from unweave.commands.options import Json


def explore(
    targets: Annotated[list[str], typer.Argument(
        help="A run folder, a folder of runs, or a store; or several.")],
    export: Annotated[Path | None, typer.Option(
        help="Write the page as static files into this folder, and serve nothing.")] = None,
    port: Annotated[int, typer.Option(help="0 takes any that is free.")] = 8737,
    host: Annotated[str, typer.Option(
        help="Where to listen; beyond this machine a token is needed, and printed.")] = "127.0.0.1",
    token: Annotated[str | None, typer.Option(
        envvar="UNWEAVE_TOKEN", help="The token, if it should not be made anew.")] = None,
    open_page: Annotated[bool, typer.Option("--open/--no-open", help="Open a browser.")] = True,
    num_images: Annotated[int, typer.Option(
        help="Images of the data set that travel with an export.")] = 240,
    as_json: Json = False,
) -> None:
    """Serve a page to choose runs, move latents, encode own images, swap and compare.

    Example: unweave explore runs/        or: unweave explore runs/ID --export page
    """
    from unweave.types import UserError

    try:
        import fastapi  # noqa: F401
        import onnx  # noqa: F401
        import uvicorn
    except ImportError as error:
        raise UserError(f"the explorer needs {error.name}: pip install 'unweave[web]'") from None
    from unweave.report.explorer.gate import Gate
    from unweave.report.explorer.listing import find_runs
    from unweave.report.explorer.server import make_app
    from unweave.report.explorer.vendor import find_or_fetch

    gate = Gate.of(host, token)
    catalogue = find_runs(targets)
    title = " ".join(Path(target).name or target for target in targets)[:80]
    if export is not None:
        from unweave.report.explorer.export import write_export
        from unweave.report.tables import print_records, size_of

        files = write_export(catalogue, export, vendor=find_or_fetch(), title=title,
                             num_images=num_images)
        size = sum(file.stat().st_size for file in files)
        print_records([{"folder": str(export), "files": len(files), "size": size_of(size),
                        "bytes": size}], ("folder", "files", "size"), as_json=as_json)
        return
    try:
        vendor = find_or_fetch()
    except UserError as error:
        vendor = None
        print(f"unweave: pictures are made by this server, not in the browser: {error}",
              file=sys.stderr)
    app = make_app(catalogue, gate, vendor=vendor, title=title)
    try:
        listening = socket.create_server(
            (host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except (OSError, OverflowError) as error:
        raise UserError(f"cannot listen at {host} port {port} ({error}): choose another --port, "
                        "or 0 for any that is free") from None
    bound = listening.getsockname()[1]
    name = f"[{host}]" if ":" in host else host
    address = f"http://{name}:{bound}/" + (f"?token={gate.token}" if gate.token else "")
    _announce(address, len(catalogue.entries), as_json)
    if open_page:
        import webbrowser

        webbrowser.open(address)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", server_header=False))
    try:
        server.run(sockets=[listening])
    except KeyboardInterrupt:  # how one leaves
        pass
    finally:
        listening.close()


def _announce(address: str, num_runs: int, as_json: bool) -> None:
    from unweave.report.tables import print_records

    if as_json:
        print_records([{"address": address, "runs": num_runs}], (), as_json=True)
    else:
        print(f"{num_runs} runs at {address}  (Ctrl-C stops)")
    sys.stdout.flush()
