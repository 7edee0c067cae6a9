"""The server by HTTP: paths and statuses, what is not HTTP, many at once, its end."""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import types
from pathlib import Path
from typing import Any

import pytest

from headrace.nmt import __main__ as nmt
from headrace.nmt.infer import Translator
from headrace.nmt.serve import main
from headrace.nmt.serving.server import Server, ServerError
from headrace.nmt.serving.service import Limits, Service
from tests.nmt.servers import JSON, SENTENCES, ask, make_translator, running, save_model, until
from tests.nmt.serving.test_service import Held


def talk(server: Server, text: str, end: bool = False) -> str:
    """Sends bytes as they are; returns what comes until the server closes."""
    with socket.create_connection(server.server_address[:2], timeout=10) as connection:  # type: ignore[arg-type]
        connection.sendall(text.encode("latin-1"))
        if end:
            connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(65536), b"")).decode()


def test_a_translation() -> None:
    with running() as (_, server):
        answer = ask(server, {"text": SENTENCES, "beam_width": 3, "nbest": 2, "attention": True})
        assert answer.status == 200
        assert answer.headers["Content-Type"] == "application/json"
        assert len(answer.document["translations"]) == len(SENTENCES)
        assert answer.document["translations"][2]["source"] == ["die", "mühle"]


def test_what_else_there_is() -> None:
    with running() as (_, server):
        assert ask(server, path="/health").document == {"status": "ok"}
        model = ask(server, path="/model").document
        assert (model["source"], model["target"], model["reads"], model["attention"]) == ("de", "en", "words", True)
        ask(server, {"text": SENTENCES[:3]})
        ask(server, {"text": ""})
        stats = ask(server, path="/stats").document
        assert stats["requests"] == {"200": 1, "400": 1}
        assert (stats["batches"], stats["sentences"], stats["largest_batch"], stats["waiting"]) == (1, 3, 3, 0)
        assert stats["latest_seconds"]["max"] == pytest.approx(stats["request_seconds"], abs=1e-5)
        assert 'headrace_nmt_requests_total{status="400"} 1\n' in ask(server, path="/metrics").body.decode()


def test_the_page_is_whole_and_needs_nothing_from_elsewhere() -> None:
    with running() as (_, server):
        answer = ask(server, path="/?x=1")
        page = answer.body.decode()
        assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
        assert ask(server, path="/", method="HEAD").body == b""
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]
    assert re.findall(r"(?:https?:)?//[a-z]", page.replace("// ", "")) == []
    assert re.findall(r"\b(?:innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval)\b", page) == []
    assert re.findall(r"\son[a-z]+=", page) == []  # the policy would forbid them
    assert [name for name in re.findall(r'\$\("([a-z_-]+)"\)', page) if f'id="{name}"' not in page] == []


@pytest.mark.parametrize(
    ("request_line", "headers", "body", "status", "message"),
    [
        ("GET /nothing", {}, "", 404, "nothing here; there are /, /health"),
        ("GET /../../etc/passwd", {}, "", 404, "nothing here"),
        ("POST /nothing", {"Content-Length": "2"}, "{}", 404, "translations are at POST /translate"),
        ("GET /translate", {}, "", 405, "expected POST"),
        ("POST /health", {"Content-Length": "2"}, "{}", 405, "expected GET"),
        ("DELETE /translate", {}, "", 405, "expected GET or POST, got DELETE"),
        ("BREW /", {}, "", 501, "Unsupported method"),
        ("POST /translate", JSON, "", 411, "expected a body with Content-Length"),
        ("POST /translate", {**JSON, "Transfer-Encoding": "chunked"}, "0\r\n\r\n", 411, "Content-Length"),
        ("POST /translate", {**JSON, "Content-Length": "-1"}, "", 400, "Content-Length is not one whole number"),
        ("POST /translate", {**JSON, "Content-Length": "9" * 30}, "", 413, "at most 2,000 may be"),
        ("POST /translate", {**JSON, "Content-Length": "3000"}, "x" * 3000, 413, "has 3,000 bytes"),
        ("POST /translate", {**JSON, "Content-Length": "9"}, "[1]", 400, "the request ends after 3 of 9 bytes"),
        ("POST /translate", {"Content-Length": "2"}, "{}", 415, "expected Content-Type: application/json, got none"),
        ("POST /translate", {**JSON, "Content-Length": "2"}, "\xff\xff", 400, "not UTF-8: byte 0 is wrong"),
        ("POST /translate", {**JSON, "Content-Length": "1"}, "{", 400, "the request is not JSON: Expecting"),
        ("POST /translate", {**JSON, "Content-Length": "3"}, "NaN", 400, "NaN is no number of JSON"),
        ("POST /translate", {**JSON, "Content-Length": "1900"}, "[" * 1900, 400, "the request is not JSON"),
        ("POST /translate", {**JSON, "Content-Length": "9" * 6, "Expect": "100-continue"}, "", 413, "at most 2,000"),
    ],
)
def test_bad_requests(request_line: str, headers: dict[str, str], body: str, status: int, message: str) -> None:
    with running(limits=Limits(body=2000)) as (_, server):
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        answer = talk(server, f"{request_line} HTTP/1.1\r\nHost: x\r\n{head}\r\n{body}", end=True)
        assert answer.startswith(f"HTTP/1.1 {status} ")
        assert message in json.loads(answer.split("\r\n\r\n", 1)[1])["error"]
        assert ask(server, {"text": "bach"}).status == 200  # the server goes on


def test_what_is_not_http() -> None:
    with running() as (_, server):
        assert "400 " in talk(server, "\x16\x03\x01\r\n\r\n", end=True)
        assert "414 " in talk(server, f"GET /{'x' * 70000} HTTP/1.1\r\n\r\n", end=True)
        assert talk(server, "", end=True) == ""
        assert ask(server, path="/health").status == 200


def test_one_connection_for_several_requests() -> None:
    with running() as (_, server):
        body = '{"text": "bach"}'
        one = f"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
        answer = talk(server, f"{one}\r\n\r\n{body}{one}\r\nConnection: close\r\n\r\n{body}")
        assert answer.count("HTTP/1.1 200 OK") == 2


def test_a_body_that_does_not_come_in_time() -> None:
    with running(limits=Limits(seconds=0.2)) as (_, server):
        answer = talk(server, 'POST /translate HTTP/1.1\r\nContent-Length: 9\r\n\r\n{"text"')
        assert answer.startswith("HTTP/1.1 408 ")
        assert "only 7 of 9 bytes came in time" in answer


def test_an_error_inside_is_not_told_outside(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    with running() as (service, server):
        monkeypatch.setattr(service.translator.__class__, "nbest", lambda *args, **kwargs: 1 / 0)
        answer = ask(server, {"text": "bach"})
        assert answer.status == 500
        assert answer.document == {"error": "the server made a mistake; its log says more"}
    assert "ZeroDivisionError" in caplog.text


def test_many_at_once_get_what_each_would_get_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also: what waits together is one batch."""
    translator = make_translator()
    expected: dict[tuple[str, int], str] = {}
    for width in (0, 3):
        translator.hparams = translator.hparams.replace(beam_width=width)
        expected |= {(text, width): translator.translate([text])[0].text for text in SENTENCES}
    jobs = [*expected] * 6
    with running() as (service, server):
        held = Held(service, monkeypatch)
        with concurrent.futures.ThreadPoolExecutor(len(jobs) + 1) as pool:
            pool.submit(ask, server, {"text": "korn"})  # a batch at hand, behind which all others wait
            assert held.began.wait(10)
            answers = [pool.submit(ask, server, {"text": text, "beam_width": width}) for text, width in jobs]
            until(lambda: service.numbers()["waiting"] == len(jobs))
            held.go_on.set()
            found = [answer.result().document["translations"][0]["hypotheses"][0]["text"] for answer in answers]
        assert found == [expected[job] for job in jobs]
        assert service.numbers()["sentences"] == 1 + len(jobs)
        assert service.numbers()["batches"] == 1 + 2  # the one at hand, and one for each width


def test_translations_are_those_of_the_command_line(tmp_path: Path) -> None:
    save_model(make_translator(), tmp_path)
    (tmp_path / "in").write_text("".join(f"{text}\n" for text in SENTENCES), encoding="utf-8")
    files = [f"--inference_input_file={tmp_path}/in", f"--inference_output_file={tmp_path}/out"]
    search = {"beam_width": 4, "length_penalty_weight": 0.7, "coverage_penalty_weight": 0.2}
    flags = [f"--{name}={value}" for name, value in search.items()]
    assert nmt.main([f"--out_dir={tmp_path}", "--num_translations_per_input=3", *files, *flags]) == 0
    lines = (tmp_path / "out").read_text(encoding="utf-8").split("\n")[:-1]
    with running(Translator.load(tmp_path)) as (_, server):
        answer = ask(server, {"text": SENTENCES, "nbest": 3, **search}).document["translations"]
    assert [found["text"] for nbest in answer for found in nbest["hypotheses"]] == lines


def test_more_connections_than_may_be() -> None:
    with running(limits=Limits(connections=1)) as (_, server):
        with socket.create_connection(server.server_address[:2], timeout=10) as first:  # type: ignore[arg-type]
            first.sendall(b"GET /health HTTP/1.1\r\n\r\n")
            assert b"200 OK" in first.recv(65536)
            answer = ask(server, path="/health")
            assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
            assert answer.document == {"error": "too many connections: try again in a second"}
        until(lambda: ask(server, path="/health").status == 200)  # the place is given to another


def test_a_busy_server_says_when_to_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with running(limits=Limits(sentences=1, waiting=1)) as (service, server):
        held = Held(service, monkeypatch)
        with concurrent.futures.ThreadPoolExecutor(10) as pool:
            first = pool.submit(ask, server, {"text": "bach"})
            assert held.began.wait(10)
            second = pool.submit(ask, server, {"text": "die mühle"})
            until(lambda: service.numbers()["waiting"] == 1)
            refused = ask(server, {"text": "korn"})
            assert (refused.status, refused.headers["Retry-After"]) == (503, "1")
            held.go_on.set()
            assert (first.result().status, second.result().status) == (200, 200)


def test_the_end_answers_what_is_in_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    service = Service(make_translator())
    server = Server(service, port=0)
    held = Held(service, monkeypatch)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    with (
        concurrent.futures.ThreadPoolExecutor(10) as pool,
        socket.create_connection(server.server_address[:2], timeout=10) as idle,  # type: ignore[arg-type]
    ):
        idle.sendall(b"GET /health HTTP/1.1\r\n\r\n")
        assert b"200 OK" in idle.recv(65536)
        answers = [pool.submit(ask, server, {"text": "korn"})]
        assert held.began.wait(10)
        answers += [pool.submit(ask, server, {"text": text}) for text in SENTENCES]
        until(lambda: service.numbers()["waiting"] == len(SENTENCES))
        drained = pool.submit(server.drain, 10.0)
        thread.join(10)
        assert idle.recv(65536) == b""  # who asks for nothing does not hold up the end
        assert not drained.done()
        held.go_on.set()
        assert drained.result() is True
        assert [answer.result().status for answer in answers] == [200] * (1 + len(SENTENCES))
        assert answers[0].result().headers["Connection"] == "close"
    with pytest.raises(ConnectionRefusedError):
        ask(server, path="/health")


def test_the_end_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    service = Service(make_translator())
    server = Server(service, port=0)
    held = Held(service, monkeypatch)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    with concurrent.futures.ThreadPoolExecutor(10) as pool:
        answer = pool.submit(ask, server, {"text": "bach"})
        assert held.began.wait(10)
        assert server.drain(0.05) is False
        held.go_on.set()
        assert answer.result().status == 200


def test_where_it_cannot_listen() -> None:
    service = Service(make_translator())
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ServerError, match=rf"127\.0\.0\.1:{port} is in use by another program: give another"):
            Server(service, port=port)
    with pytest.raises(ServerError, match="a port is a number from 0 to 65535, got 70000"):
        Server(service, port=70000)
    with pytest.raises(ServerError, match=r"cannot listen at 192\.0\.2\.1:0: .*; check --host"):
        Server(service, host="192.0.2.1", port=0)
    service.close()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the following arguments are required: MODEL"),
        (["nowhere"], "cannot read the checkpoint nowhere"),
        (["MODEL", "--prot=3"], "unknown flag --prot; did you mean --port?"),
        (["MODEL", "--beam_widht=3"], "unknown flag --beam_widht; did you mean --beam_width?"),
        (["MODEL", "--port=x"], "argument --port: expected a whole number, got 'x'"),
        (["MODEL", "--time_limit=0"], "the limit of seconds must be above 0, got 0"),
        (["MODEL", "--beam_width=25"], "beam_width=25 is above the limit of 20"),
    ],
)
def test_mistakes_in_the_command(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_model(make_translator(), tmp_path)
    assert main([str(tmp_path) if argument == "MODEL" else argument for argument in arguments]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_command_until_it_is_asked_to_end(number: int, tmp_path: Path) -> None:
    save_model(make_translator(), tmp_path)
    command = [sys.executable, "-m", "headrace.nmt", "serve", str(tmp_path), "--port=0", "--beam_width=2"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
    with process, contextlib.ExitStack() as stack:
        stack.callback(process.kill)
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.fullmatch(r"# translating de to en at http://127\.0\.0\.1:(\d+)/ until Ctrl-C\n", line)
        assert found, line + process.stdout.read()
        address: Any = types.SimpleNamespace(server_address=("127.0.0.1", int(found[1])))
        assert ask(address, {"text": "bach", "nbest": 2}).status == 200
        process.send_signal(number)
        assert process.wait(20) == 0
        assert process.stdout.read() == "# stopping: answering what is in hand\n# stopped\n"
