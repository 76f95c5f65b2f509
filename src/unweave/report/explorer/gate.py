"""Who may ask the server: checks before every answer, and headers on every answer.

The server is meant for the person at this machine. A page of another site must not be able to read
from it: the Host header must be a name of this server (a foreign name that points here is a DNS
rebinding), and requests that another site's page makes are refused. Where the server listens beyond
this machine there is a token besides, which becomes a cookie at the first visit.
"""

from __future__ import annotations

import ipaddress
import secrets
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from unweave.types import UserError

COOKIE = "unweave_token"
_LEAST_TOKEN = 12
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_WILDCARDS = frozenset({"0.0.0.0", "::", ""})

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; "
    "style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; form-action 'none'; "
    "base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server that listens there."""
    if host in _LOOPBACK:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True)
class Gate:
    """The checks of a server at `host`; with a `token` every request needs it."""

    host: str
    token: str | None = None

    @classmethod
    def of(cls, host: str, token: str | None) -> Gate:
        """A gate; beyond this machine a token is made if none is given."""
        if token is not None and (len(token) < _LEAST_TOKEN or not token.isascii()
                                  or not all(c.isalnum() or c in "-_" for c in token)):
            raise UserError(f"a token has {_LEAST_TOKEN} letters, digits, - or _ at least: leave "
                            "--token out to have one made")
        if token is None and not is_loopback(host):
            token = secrets.token_urlsafe(24)
        return cls(host, token)

    def refusal(self, headers: Mapping[str, str], query_token: str | None,
                cookie: str | None) -> tuple[int, str] | None:
        """Why a request is refused, as a status and a sentence; None if it is not."""
        name = _host_of(headers.get("host", ""))
        if name is None or not self._is_ours(name):
            return 421, "this server does not answer under that name"
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2] != headers.get("host"):
            return 403, "requests from pages of other sites are refused"
        if headers.get("sec-fetch-site") == "cross-site" and \
                headers.get("sec-fetch-mode") != "navigate":
            return 403, "requests from pages of other sites are refused"
        if self.token is None:
            return None
        bearer = headers.get("authorization", "").removeprefix("Bearer ")
        given = [said for said in (query_token, cookie, bearer) if said]
        if any(secrets.compare_digest(said.encode(), self.token.encode()) for said in given):
            return None
        return 401, "open the address with the token that the command printed"

    def _is_ours(self, name: str) -> bool:
        if name in _LOOPBACK or name == self.host.lower():
            return True
        if self.host not in _WILDCARDS:
            return False
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return name in {socket.gethostname().lower(), socket.getfqdn().lower()}
        return True


def _host_of(header: str) -> str | None:
    """The name in a Host header, without the port."""
    try:
        return urlsplit(f"//{header}").hostname
    except ValueError:
        return None
