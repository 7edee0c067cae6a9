"""Loading corpora from a server that has every fault."""

import hashlib
import http.server
import io
import subprocess
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.nmt.download import DownloadError, download, main
from headrace.nmt.text.corpora import CORPORA, Corpus, Remote, Text

CONTENT = bytes(range(256)) * 40


class Server(http.server.ThreadingHTTPServer):
    """Serves `files`; cuts the next replies after so many bytes, as `cuts` says."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.cuts: list[int] = []
        self.tags = True
        self.ranges: list[str | None] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        content = self.server.files.get(self.path[1:])
        wanted = self.headers.get("Range")
        self.server.ranges.append(wanted)
        if content is None:
            self.send_error(404)
            return
        tag = '"' + hashlib.md5(content).hexdigest() + '"'
        start = 0
        if wanted and self.headers.get("If-Range") == tag:
            start = int(wanted.removeprefix("bytes=").rstrip("-"))
            if start >= len(content):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(content)}")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        if self.server.tags:
            self.send_header("ETag", tag)
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        rest = content[start:]
        self.wfile.write(rest[: self.server.cuts.pop(0)] if self.server.cuts else rest)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def one(server: Server, sha256: str | None = None) -> Corpus:
    server.files["train.en"] = CONTENT
    return Corpus("", (Remote(f"{server.url}/train.en", sha256),))


def quiet(line: str) -> None:
    pass


def test_a_file_and_its_checksum(server: Server, tmp_path: Path) -> None:
    corpus = one(server)
    download(corpus, tmp_path / "new", say=quiet)
    assert (tmp_path / "new" / "train.en").read_bytes() == CONTENT
    assert {path.name for path in (tmp_path / "new").iterdir()} == {"train.en", "SHA256SUMS"}
    subprocess.run(["sha256sum", "-c", "SHA256SUMS"], cwd=tmp_path / "new", check=True, capture_output=True)
    asked = len(server.ranges)
    download(corpus, tmp_path / "new", say=quiet)
    assert len(server.ranges) == asked  # nothing is loaded twice
    (tmp_path / "new" / "train.en").write_bytes(b"other")
    with pytest.raises(DownloadError, match=r"train\.en is not the file of .* expected SHA-256 .* delete it"):
        download(corpus, tmp_path / "new", say=quiet)
    (tmp_path / "new" / "train.en").unlink()
    server.files["train.en"] = b"another version"
    with pytest.raises(DownloadError, match=r"is not what it should be: expected SHA-256 .* thrown away"):
        download(corpus, tmp_path / "new", say=quiet)
    assert {path.name for path in (tmp_path / "new").iterdir()} == {"SHA256SUMS"}


def test_broken_connections(server: Server, tmp_path: Path) -> None:
    corpus = one(server, hashlib.sha256(CONTENT).hexdigest())
    server.cuts = [100, 0, 0, 0, 3000, 5000]
    said: list[str] = []
    download(corpus, tmp_path, say=said.append)
    assert (tmp_path / "train.en").read_bytes() == CONTENT
    assert server.ranges == [None, *["bytes=100-"] * 4, "bytes=3100-", "bytes=8100-"]
    assert said[0] == "# train.en: the connection ended after 100 of 10,240 bytes; going on at byte 100"


def test_goes_on_in_the_next_run(server: Server, tmp_path: Path) -> None:
    corpus = one(server)
    server.cuts = [4000, 0, 0, 0, 0]
    with pytest.raises(
        DownloadError, match="ended after 4,000 of 10,240 bytes, 4 times in a row; 4,000 bytes are kept"
    ):
        download(corpus, tmp_path, say=quiet)
    assert not (tmp_path / "train.en").exists()
    download(corpus, tmp_path, say=quiet)
    assert (tmp_path / "train.en").read_bytes() == CONTENT
    assert server.ranges[-1] == "bytes=4000-"


def test_a_part_of_another_version_is_not_gone_on_with(server: Server, tmp_path: Path) -> None:
    corpus = one(server)
    server.cuts = [4000, 0, 0, 0, 0]
    with pytest.raises(DownloadError, match="4,000 bytes are kept"):
        download(corpus, tmp_path, say=quiet)
    server.files["train.en"] = CONTENT[::-1]
    download(corpus, tmp_path, say=quiet)
    assert (tmp_path / "train.en").read_bytes() == CONTENT[::-1]
    # Nor with one of which nobody knows the version.
    server.tags = False
    (tmp_path / "train.en").unlink()
    (tmp_path / "train.en.part").write_bytes(b"something")
    download(corpus, tmp_path, say=quiet)
    assert (tmp_path / "train.en").read_bytes() == CONTENT[::-1]


def test_a_part_that_is_whole(server: Server, tmp_path: Path) -> None:
    corpus = one(server)
    (tmp_path / "train.en.part").write_bytes(CONTENT)
    (tmp_path / "train.en.part.tag").write_text('"' + hashlib.md5(CONTENT).hexdigest() + '"')
    download(corpus, tmp_path, say=quiet)
    assert (tmp_path / "train.en").read_bytes() == CONTENT
    assert server.ranges == ["bytes=10240-"]


def test_no_such_file_and_no_such_server(server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["multi30k", str(tmp_path), f"--mirror={server.url}/"]) == 2
    message = f"{server.url}/train.de.gz: the server says 404 Not Found; is there a mirror for --mirror?\n"
    assert capsys.readouterr().err == f"headrace.nmt.download: {message}"
    with pytest.raises(DownloadError, match="refused, 4 times in a row; 0 bytes are kept"):
        download(Corpus("", (Remote("http://127.0.0.1:9/train.en"),)), tmp_path, say=quiet)
    assert main(["multi31k", str(tmp_path)]) == 2
    assert "invalid choice: 'multi31k'" in capsys.readouterr().err


def packed(members: dict[str, bytes]) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return content.getvalue()


def test_texts_of_archives(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sgm = b'<refset><doc>\n<seg id="1"> Tom &amp; Jerry </seg>\n<p><seg id="2">two\nlines</seg></doc></refset>'
    server.files["a.tgz"] = packed({"./x/train.en": b"one\r\ntwo", "../evil": b"!", "dev/test.en.sgm": sgm})
    server.files["b.tgz"] = packed({"more.en": b"three\n"})
    texts = (
        Text("train.en", (("a.tgz", "x/train.en"), ("b.tgz", "more.en"))),
        Text("test.en", (("a.tgz", "dev/test.en.sgm"),)),
    )
    corpus = Corpus("", (Remote("http://nowhere/a.tgz"), Remote("http://nowhere/b.tgz")), texts)
    download(corpus, tmp_path, mirror=server.url, say=quiet)
    assert (tmp_path / "train.en").read_text() == "one\ntwo\nthree\n"
    assert (tmp_path / "test.en").read_text() == "Tom & Jerry\ntwo lines\n"
    assert not (tmp_path.parent / "evil").exists()
    # The archives may go once the texts are there.
    for name in ("a.tgz", "b.tgz"):
        (tmp_path / name).unlink()
    asked = len(server.ranges)
    download(corpus, tmp_path, mirror=server.url, say=quiet)
    assert len(server.ranges) == asked
    lacking = Corpus("", corpus.files, (Text("dev.en", (("b.tgz", "dev.en"),)),))
    with pytest.raises(DownloadError, match=r"b\.tgz has no text dev\.en"):
        download(lacking, tmp_path, mirror=server.url, say=quiet)
    assert not (tmp_path / "dev.en").exists()
    server.files["c.tgz"] = server.files["b.tgz"][:60]
    cut = Corpus("", (Remote("http://nowhere/c.tgz"),), (Text("dev.en", (("c.tgz", "more.en"),)),))
    with pytest.raises(DownloadError, match=r"c\.tgz is damaged: .* delete it"):
        download(cut, tmp_path, mirror=server.url, say=quiet)


def test_damaged_sums(server: Server, tmp_path: Path) -> None:
    (tmp_path / "SHA256SUMS").write_text("abc  train.en\n")
    with pytest.raises(DownloadError, match="SHA256SUMS, line 1: expected a SHA-256 and a name"):
        download(one(server), tmp_path, say=quiet)


@pytest.mark.parametrize("name", CORPORA)
def test_corpora_are_whole(name: str) -> None:
    corpus = CORPORA[name]
    names = [remote.name for remote in corpus.files]
    assert len(set(names)) == len(names)
    assert all(archive in names for text in corpus.texts for archive, _ in text.members)
    made = [text.name for text in corpus.texts] or [name.removesuffix(".gz") for name in names]
    stems = [
        sorted(path.rsplit(".", 1)[1] for path in made if path.startswith(f"{stem}."))
        for stem in {m.rsplit(".", 1)[0] for m in made}
    ]
    assert all(sides in (["de", "en"], ["en", "vi"]) for sides in stems)
