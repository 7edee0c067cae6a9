"""The translation server's HTTP: paths, bodies, statuses; its end without losing what is in hand.

The standard library's server, a thread a connection: threads only wait, for bodies and for the one thread that
translates. So nothing is gained by more, and nothing has to be installed.
"""

from __future__ import annotations

import base64
import contextlib
import errno
import hashlib
import importlib.resources
import json
import logging
import re
import socket
import socketserver
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NoReturn

import headrace as hr
from headrace.nmt.serving.service import RequestError, Service

__all__ = ["Server", "ServerError", "metrics_text"]

_log = logging.getLogger("headrace")
_GET = ("/", "/health", "/model", "/stats", "/metrics")
_READ_AND_DROPPED = 16 << 20  # bytes of a body that is too large, so that its sender gets to see the answer
_IDLE_SECONDS = 30.0


class ServerError(hr.HeadraceError):
    """The server cannot begin; the message says what to do."""


def load_page() -> tuple[bytes, str]:
    """Reads the page; returns it with the policy that lets a browser run what is in it, and nothing else."""
    page = importlib.resources.files("headrace.nmt.serving").joinpath("page.html").read_text(encoding="utf-8")
    hashes = {}
    for tag in ("script", "style"):
        (content,) = re.findall(f"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        hashes[tag] = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; script-src 'sha256-{hashes['script']}'; style-src 'sha256-{hashes['style']}'; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return page.encode(), policy


class Server(ThreadingHTTPServer):
    """Listens, and answers with a service.

    Args:
        service: What translates.
        host: The address to listen at.
        port: The port; 0 takes a free one.
        log_requests: Log a line for each request.

    Raises:
        ServerError: It cannot listen there.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, service: Service, host: str = "127.0.0.1", port: int = 8000, log_requests: bool = False) -> None:
        self.service, self.log_requests = service, log_requests
        self.page, self.policy = load_page()
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._slots = threading.BoundedSemaphore(service.limits.connections)
        self._open: set[socket.socket] = set()
        self._all_closed = threading.Condition()
        try:
            super().__init__((host, port), _Handler)
        except (OSError, OverflowError) as error:
            raise ServerError(_why_not(error, host, port)) from error

    def server_bind(self) -> None:
        """Binds; asks no name server what this machine is called, unlike the standard library's."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]  # type: ignore[assignment]

    @property
    def url(self) -> str:
        """Where it listens."""
        host, port = self.server_address[:2]
        return f"http://[{host}]:{port}/" if self.address_family == socket.AF_INET6 else f"http://{host}:{port}/"  # type: ignore[str-bytes-safe]

    def drain(self, seconds: float) -> bool:
        """Ends: takes no more requests, answers those in hand. Call it while, or after, `serve_forever` runs.

        Args:
            seconds: How long to wait for them.

        Returns:
            Whether all were answered.
        """
        self.service.stopping = True
        self.shutdown()
        self.socket.setblocking(False)
        with contextlib.suppress(OSError):
            while True:  # who has been let in by the system, but not yet by us
                self.process_request(*self.get_request())
        self.socket.close()
        with self._all_closed:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RD)  # what has come is still read; who waits for more sees the end
            done = self._all_closed.wait_for(lambda: not self._open, seconds)
        if done:
            self.service.close()
        return done

    def process_request(self, request: Any, client_address: Any) -> None:
        """Gives a connection to a thread of its own, if there may be one more."""
        if not self._slots.acquire(blocking=False):
            body = b'{"error": "too many connections: try again in a second"}'
            head = f"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
            with contextlib.suppress(OSError):
                request.settimeout(1.0)
                request.sendall(f"{head}\r\nRetry-After: 1\r\nConnection: close\r\n\r\n".encode() + body)
            self.shutdown_request(request)
            return
        with self._all_closed:
            self._open.add(request)
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread could be started
            self._forget(request)
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answers the requests of a connection."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._forget(request)

    def _forget(self, request: socket.socket) -> None:
        with self._all_closed:
            self._open.discard(request)
            self._all_closed.notify_all()
        self._slots.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Logs an error of a connection, unless its other end has merely gone."""
        if not isinstance(sys.exception(), OSError):
            _log.exception("the connection of %s was closed by a mistake of the server", client_address)


def _why_not(error: OSError | OverflowError, host: str, port: int) -> str:
    if isinstance(error, OverflowError):
        return f"a port is a number from 0 to 65535, got {port}"
    if error.errno == errno.EADDRINUSE:
        return f"{host}:{port} is in use by another program: give another --port, or --port=0 for any free one"
    if error.errno == errno.EACCES:
        return f"may not listen at port {port} of {host}: ports below 1024 are the system's, give a higher --port"
    return f"cannot listen at {host}:{port}: {error.strerror or error}; check --host"


class _Handler(BaseHTTPRequestHandler):
    """Answers the requests of one connection."""

    server: Server
    protocol_version = "HTTP/1.1"
    server_version = "headrace"
    sys_version = ""
    timeout = _IDLE_SECONDS
    disable_nagle_algorithm = True
    wbufsize = 1 << 16  # head and body leave together
    _body_left = False  # a body that was not read: the next request would begin in the midst of it

    def do_GET(self) -> None:
        """Answers with the page, the model, health, or statistics."""
        service, path = self.server.service, self.path.split("?")[0]
        self._body_left = self.headers.get("Content-Length", "0") != "0" or "Transfer-Encoding" in self.headers
        match path:
            case "/":
                policy = {"Content-Security-Policy": self.server.policy}
                self._send(200, self.server.page, "text/html; charset=utf-8", policy)
            case "/health":
                self._send_json(*((503, {"status": "stopping"}) if service.stopping else (200, {"status": "ok"})))
            case "/model":
                self._send_json(200, service.model())
            case "/stats":
                self._send_json(200, service.numbers())
            case "/metrics":
                self._send(200, metrics_text(service.numbers()).encode(), "text/plain; version=0.0.4; charset=utf-8")
            case "/translate":
                self._refuse(RequestError(405, "expected POST with a JSON document"), {"Allow": "POST"})
            case _:
                self._refuse(RequestError(404, f"nothing here; there are {', '.join(_GET)} and POST /translate"))

    do_HEAD = do_GET

    def do_POST(self) -> None:
        """Translates."""
        path = self.path.split("?")[0]
        self._body_left = True
        if path != "/translate":
            allowed = {"Allow": "GET, HEAD"} if path in _GET else {}
            message = "expected GET" if path in _GET else "nothing here; translations are at POST /translate"
            self._refuse(RequestError(405 if path in _GET else 404, message), allowed)
            return
        start = time.perf_counter()
        try:
            document = self._read_json()
            answer = self.server.service.translate(document)
            status = 200
        except RequestError as error:
            status = error.status
            self._refuse(error)
        except Exception:
            _log.exception("a request for a translation failed")
            status = 500
            self._refuse(RequestError(500, "the server made a mistake; its log says more"))
        else:
            self._send_json(200, answer)
        self.server.service.statistics.note(status, time.perf_counter() - start)

    def _other(self) -> None:
        self._body_left = True
        self._refuse(RequestError(405, f"expected GET or POST, got {self.command}"), {"Allow": "GET, HEAD, POST"})

    do_PUT = do_PATCH = do_DELETE = do_OPTIONS = _other

    # Bodies ---------------------------------------------------------------------------------------------------------

    def handle_expect_100(self) -> bool:
        """Asks for the body of a request that waits to be asked, if it will be read."""
        try:
            self._length()
        except RequestError as error:
            self._body_left = True
            self._refuse(error)
            return False
        return super().handle_expect_100()

    def _length(self) -> int:
        """Returns how long the body is, if it may be."""
        if "Transfer-Encoding" in self.headers or "Content-Length" not in self.headers:
            raise RequestError(411, "expected a body with Content-Length")
        lengths = set(self.headers.get_all("Content-Length", []))
        text = lengths.pop().strip()
        if lengths or not (text.isascii() and text.isdigit()):
            raise RequestError(400, "Content-Length is not one whole number")
        length, most = int(text[:20]), self.server.service.limits.body
        if length > most:
            raise RequestError(413, f"the request has {length:,} bytes, at most {most:,} may be: send fewer sentences")
        return length

    def _read_json(self) -> object:
        try:
            length = self._length()
        except RequestError as error:
            if error.status == 413:
                self._drop(int(self.headers["Content-Length"][:20]))
            raise
        kind = self.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        body = self._read(length)
        self._body_left = False
        if kind != "application/json":  # also what a form of another site may send without being asked is not this
            raise RequestError(415, f"expected Content-Type: application/json, got {kind[:40] or 'none'}")
        try:
            return json.loads(body.decode("utf-8"), parse_constant=_no_constant)
        except UnicodeDecodeError as error:
            raise RequestError(400, f"the request is not UTF-8: byte {error.start} is wrong") from None
        except RecursionError:
            raise RequestError(400, "the request is not JSON that can be read: it is nested too deeply") from None
        except ValueError as error:
            raise RequestError(400, f"the request is not JSON: {error}") from None

    def _read(self, length: int) -> bytes:
        """Reads a body, in the time that a request may take."""
        body, end = b"", time.monotonic() + self.server.service.limits.seconds
        try:
            while len(body) < length:
                left = end - time.monotonic()
                if left <= 0:
                    raise TimeoutError
                self.connection.settimeout(left)
                part = self.rfile.read1(length - len(body))
                if not part:
                    raise RequestError(400, f"the request ends after {len(body):,} of {length:,} bytes")
                body += part
        except TimeoutError:
            raise RequestError(408, f"only {len(body):,} of {length:,} bytes came in time") from None
        finally:
            with contextlib.suppress(OSError):
                self.connection.settimeout(_IDLE_SECONDS)
        return body

    def _drop(self, length: int) -> None:
        """Reads a body and forgets it: closing a connection on one who is still sending takes the answer away."""
        if length > _READ_AND_DROPPED:
            return
        while length > 0 and (part := self.rfile.read1(min(length, 1 << 16))):
            length -= len(part)
        self._body_left = length > 0

    # Answers --------------------------------------------------------------------------------------------------------

    def _refuse(self, error: RequestError, headers: dict[str, str] | None = None) -> None:
        headers = dict(headers or {})
        if error.retry_after is not None:
            headers["Retry-After"] = str(error.retry_after)
        self._send_json(error.status, {"error": str(error)}, headers)

    def _send_json(self, status: int, document: object, headers: dict[str, str] | None = None) -> None:
        self._send(status, json.dumps(document, allow_nan=False).encode() + b"\n", "application/json", headers)

    def _send(self, status: int, body: bytes, kind: str, headers: dict[str, str] | None = None) -> None:
        if self._body_left or self.server.service.stopping:
            self.close_connection = True
        try:
            self.send_response(status)
            fixed = {"Content-Type": kind, "Content-Length": str(len(body)), "X-Content-Type-Options": "nosniff"}
            for name, value in {**fixed, "Cache-Control": "no-store", **(headers or {})}.items():
                self.send_header(name, value)
            if self.close_connection:
                self.send_header("Connection", "close")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)
            self.wfile.flush()
        except OSError:  # nobody is there any more
            self.close_connection = True

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answers what is not HTTP, as everything else, in JSON."""
        self._body_left = True
        self.command = getattr(self, "command", None) or ""
        self.request_version = self.protocol_version  # what cannot be read is taken for HTTP 0.9, which has no statuses
        self._refuse(RequestError(code, message or self.responses.get(code, ("not understood",))[0]))

    def log_message(self, format: str, *args: Any) -> None:
        """Logs a request, if that is asked for; control characters are escaped."""
        if self.server.log_requests:
            text = (format % args).encode("unicode_escape").decode("ascii")
            _log.warning("%s %s", self.client_address[0], text)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


def metrics_text(numbers: dict[str, Any]) -> str:
    """Writes statistics in the text format of Prometheus.

    Example:
        >>> print(metrics_text({"waiting": 2, "requests": {"200": 5}}), end="")
        # TYPE headrace_nmt_requests_total counter
        headrace_nmt_requests_total{status="200"} 5
        # TYPE headrace_nmt_waiting_sentences gauge
        headrace_nmt_waiting_sentences 2
    """
    lines = []
    for key, name, kind in (
        ("requests", "requests_total", "counter"),
        ("request_seconds", "request_seconds_total", "counter"),
        ("batches", "batches_total", "counter"),
        ("sentences", "sentences_total", "counter"),
        ("largest_batch", "largest_batch_sentences", "gauge"),
        ("waiting", "waiting_sentences", "gauge"),
        ("uptime_seconds", "uptime_seconds", "gauge"),
    ):
        if key not in numbers:
            continue
        lines.append(f"# TYPE headrace_nmt_{name} {kind}")
        value = numbers[key]
        each = {f'{{status="{status}"}}': n for status, n in value.items()} if isinstance(value, dict) else {"": value}
        lines += [f"headrace_nmt_{name}{label} {number}" for label, number in each.items()]
    return "".join(f"{line}\n" for line in lines)
