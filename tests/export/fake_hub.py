"""A server on this machine that speaks the part of the Hub's protocol that push and pull need."""

import base64
import hashlib
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

COMMIT = "c" * 40


class Hub(ThreadingHTTPServer):
    """Repositories as dictionaries of files; `requests` are those that came, without reads."""

    daemon_threads = True

    def __init__(self, token):
        super().__init__(("127.0.0.1", 0), Handler)
        self.token, self.repositories, self.private, self.requests = token, {}, {}, []

    @property
    def address(self):
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, code, body=b"", **headers):
        payload = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Length", headers.pop("length", len(payload)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(payload)

    def missing(self):
        self.answer(404, {"error": "not found"}, X_Error_Code="RepoNotFound")

    def allowed(self):
        if self.headers.get("Authorization") == f"Bearer {self.server.token}":
            return True
        self.answer(401, {"error": "Invalid username or password."})
        return False

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = urlsplit(self.path).path
        self.server.requests.append(path)
        if not self.allowed():
            return
        if path == "/api/repos/create":
            wanted = json.loads(body)
            name = f"{wanted['organization']}/{wanted['name']}"
            known = name in self.server.repositories
            self.server.repositories.setdefault(name, {})
            said = wanted.get("visibility", wanted.get("private"))  # by release of the library
            self.server.private[name] = said in ("private", True)
            self.answer(409 if known else 200, {"url": f"{self.server.address}/{name}"})
            return
        if path == "/api/validate-yaml":
            assert json.loads(body)["content"].startswith("---\nlicense:")
            self.answer(200, {"errors": [], "warnings": []})
            return
        _, _, _, user, repo, what, *_ = path.split("/")
        files = self.server.repositories.get(f"{user}/{repo}")
        if files is None:
            self.missing()
        elif what == "preupload":
            self.answer(200, {"files": [
                {"path": file["path"], "uploadMode": "regular", "shouldIgnore": False}
                for file in json.loads(body)["files"]]})
        elif what == "commit":
            for line in body.decode().splitlines():
                record = json.loads(line)
                if record["key"] == "file":
                    value = record["value"]
                    files[value["path"]] = base64.b64decode(value["content"])
            self.answer(200, {"success": True, "commitOid": COMMIT, "hookOutput": "",
                              "commitUrl": f"{self.server.address}/{user}/{repo}/commit/{COMMIT}"})

    def do_GET(self):
        parts = [unquote(part) for part in urlsplit(self.path).path.strip("/").split("/")]
        api = parts[0] == "api"
        if api and parts[1] != "models":
            self.answer(404, {"error": "not here"})
            return
        user, repo, *rest = parts[2:] if api else parts
        files = self.server.repositories.get(f"{user}/{repo}")
        if files is None:
            self.missing()
        elif api and rest[:1] == ["tree"]:
            self.answer(200, [{"type": "file", "path": name, "size": len(data),
                               "oid": hashlib.sha1(data).hexdigest()}
                              for name, data in files.items()])
        elif api:
            self.answer(200, {"id": f"{user}/{repo}", "modelId": f"{user}/{repo}", "sha": COMMIT,
                              "private": False, "tags": [], "downloads": 0,
                              "siblings": [{"rfilename": name} for name in files]})
        else:
            data = files["/".join(rest[2:])]
            self.answer(200, data, ETag=f'"{hashlib.sha1(data).hexdigest()}"',
                        X_Repo_Commit=COMMIT, Accept_Ranges="bytes")

    do_HEAD = do_GET


@contextmanager
def serving(token="a token for tests"):
    hub = Hub(token)
    thread = threading.Thread(target=hub.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        hub.shutdown()
        hub.server_close()
        thread.join()
