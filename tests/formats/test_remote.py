"""TFRecord files that URLs name."""

from __future__ import annotations

import builtins
import contextlib
import functools
import http.server
import pathlib
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import headrace as hr
from headrace.formats.remote import size_of

fsspec = pytest.importorskip("fsspec")
RECORDS = [b"record %d" % i * (i % 7) for i in range(300)]


@pytest.fixture
def memory() -> Iterator[Any]:
    system = fsspec.filesystem("memory")
    yield system
    system.store.clear()


def packed(folder: pathlib.Path, compression: str = "", records: list[bytes] = RECORDS) -> bytes:
    path = folder / "written.tfrecord"
    with hr.TFRecordWriter(path, compression) as writer:
        writer.write_many(records)
    return path.read_bytes()


class _Handler(http.server.SimpleHTTPRequestHandler):
    fail = ""

    def log_message(self, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        if "broken" in self.path:
            self.send_error(500, "out of order")
        else:
            super().do_GET()


@contextlib.contextmanager
def serving(handler: Any) -> Iterator[str]:
    httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=httpd.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{httpd.server_port}"
    finally:
        httpd.shutdown()
        thread.join()
        httpd.server_close()


@pytest.fixture
def server(tmp_path: pathlib.Path) -> Iterator[str]:
    pytest.importorskip("aiohttp")
    with serving(functools.partial(_Handler, directory=str(tmp_path))) as url:
        yield url


@pytest.mark.parametrize("compression", ["", "GZIP", "ZLIB", "ZSTD"])
def test_records_come_from_memory(tmp_path: pathlib.Path, memory: Any, compression: str) -> None:
    if compression == "ZSTD":
        pytest.importorskip("zstandard")
    memory.pipe("/mill/a.tfrecord", packed(tmp_path, compression))
    for arguments in ({}, {"stream": True}, {"compression": compression}, {"recover": "skip"}):
        data = hr.read_tfrecord("memory://mill/a.tfrecord", **arguments)
        assert list(data) == RECORDS
    hr.assert_resumable(data.batch(50), workers=(0, 2))


def test_patterns_lists_and_local_files(tmp_path: pathlib.Path, memory: Any) -> None:
    for name, part in (("b-10", RECORDS[100:]), ("a-00", RECORDS[:100])):
        memory.pipe(f"/mill/{name}.tfrecord", packed(tmp_path, records=part))
    assert list(hr.read_tfrecord("memory://mill/*.tfrecord")) == RECORDS
    local = tmp_path / "written.tfrecord"
    packed(tmp_path, records=[b"local"])
    assert list(hr.read_tfrecord([local, "memory://mill/a-00.tfrecord"])) == [b"local", *RECORDS[:100]]
    with pytest.raises(FileNotFoundError, match="the pattern matches nothing"):
        hr.read_tfrecord("memory://mill/*.jpg")


def test_examples_and_damage(tmp_path: pathlib.Path, memory: Any) -> None:
    data = bytearray(packed(tmp_path, records=[hr.encode_example({"x": i}) for i in range(5)]))
    memory.pipe("/a.tfrecord", bytes(data))
    assert hr.infer_example("memory://a.tfrecord") == {"x": hr.FixedLen((), "int64")}
    batches = hr.read_tfrecord("memory://a.tfrecord").parse_example({"x": hr.FixedLen((), "int64")}).batch(5)
    assert next(iter(hr.Loader(batches)))["x"].tolist() == [0, 1, 2, 3, 4]
    data[20] ^= 1
    memory.pipe("/b.tfrecord", bytes(data))
    with pytest.raises(hr.DataError, match=r"memory://b\.tfrecord: corrupted record at 12"):
        list(hr.read_tfrecord("memory://b.tfrecord"))
    assert len(list(hr.read_tfrecord("memory://b.tfrecord", recover="skip"))) == 4
    memory.pipe("/c.tfrecord", bytes(data)[:30])
    with pytest.raises(hr.DataError, match=r"memory://c\.tfrecord: (truncated|corrupted) record at"):
        list(hr.read_tfrecord("memory://c.tfrecord"))


def test_a_web_server(tmp_path: pathlib.Path, server: str) -> None:
    for compression in ("", "GZIP"):
        packed(tmp_path, compression)
        url = f"{server}/written.tfrecord"
        assert list(hr.read_tfrecord(url)) == RECORDS
        assert size_of(url) == (tmp_path / "written.tfrecord").stat().st_size
    hr.assert_resumable(hr.read_tfrecord(url).batch(64))
    with pytest.raises(FileNotFoundError, match=r"nothing\.tfrecord"):
        list(hr.read_tfrecord(f"{server}/nothing.tfrecord"))
    with pytest.raises(OSError, match=r"http://127.*broken\.tfrecord"):
        list(hr.read_tfrecord(f"{server}/broken.tfrecord"))


def test_no_server_and_one_that_streams(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("aiohttp")
    with pytest.raises(FileNotFoundError, match=r"\(.*127\.0\.0\.1.*\): 'http://127\.0\.0\.1:9/none'"):
        list(hr.read_tfrecord("http://127.0.0.1:9/none"))
    whole = packed(tmp_path, records=[b"some data" * 99] * 500)

    class Chunked(http.server.BaseHTTPRequestHandler):
        """Sends without saying how much will come, and sometimes less."""

        protocol_version = "HTTP/1.1"

        def log_message(self, *args: Any) -> None:
            pass

        def do_HEAD(self) -> None:
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()

        def do_GET(self) -> None:
            self.do_HEAD()
            with contextlib.suppress(OSError):  # whoever looks at the beginning alone has gone by then
                for start in range(0, len(whole), 50_000):
                    part = whole[start : start + 50_000]
                    if start and "cut" in self.path:
                        self.close_connection = True
                        return
                    self.wfile.write(b"%x\r\n%b\r\n" % (len(part), part))
                self.wfile.write(b"0\r\n\r\n")

    with serving(Chunked) as url:
        assert list(hr.read_tfrecord(f"{url}/a.tfrecord")) == [b"some data" * 99] * 500
        with pytest.raises((OSError, hr.DataError), match="cut"):
            list(hr.read_tfrecord(f"{url}/cut.tfrecord"))


def test_missing_packages_and_protocols(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(hr.DataError, match=r"nowhere://a: Protocol not known: nowhere; write a path, or an URL"):
        hr.read_tfrecord("nowhere://a")
    original = builtins.__import__

    def refuse(name: str, *rest: Any) -> Any:
        if name == "fsspec":
            raise ImportError(name)
        return original(name, *rest)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ImportError, match=r"reading memory://a needs fsspec: pip install 'headrace\[remote\]'"):
        hr.read_tfrecord("memory://a")


def test_other_readers_say_that_they_read_files() -> None:
    with pytest.raises(FileNotFoundError, match="URLs are read by read_tfrecord alone: copy it to a file"):
        hr.read_text("memory://a*.txt")


def test_states_know_another_file(tmp_path: pathlib.Path, memory: Any) -> None:
    memory.pipe("/a.tfrecord", packed(tmp_path))
    loader = hr.Loader(hr.read_tfrecord("memory://a.tfrecord").batch(10))
    next(iter(loader))
    state = loader.state_dict()
    memory.pipe("/a.tfrecord", packed(tmp_path, records=RECORDS[:100]))
    with pytest.raises(hr.StateError):
        hr.Loader(hr.read_tfrecord("memory://a.tfrecord").batch(10)).load_state_dict(state)
