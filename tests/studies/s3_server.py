"""An S3 server of this machine for tests: moto behind werkzeug, a request at a time.

moto looks for a key and writes it in two steps. With one thread nothing comes between, so that a
conditional write is as atomic as it is on S3.
"""

import sys

from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

if __name__ == "__main__":
    server = make_server("127.0.0.1", 0, DomainDispatcherApplication(create_backend_app))
    print(server.server_port, flush=True)
    sys.stderr = open("/dev/null", "w")  # noqa: SIM115  a line for each request
    server.serve_forever()
