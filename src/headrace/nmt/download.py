"""`python -m headrace.nmt.download NAME FOLDER`: loads a corpus, checks it, and makes training files of it.

A file appears under its name when it is whole and checked. Until then it is `NAME.part`, which the same command goes on
with. `SHA256SUMS` in the folder says what each file is, in the form of `sha256sum -c`: a file whose checksum is not
known in advance is recorded there when it was first loaded, and compared from then on.
"""

from __future__ import annotations

import hashlib
import html
import http.client
import re
import sys
import tarfile
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO

import headrace as hr
from headrace.nmt.cli.run import Parser, run_command
from headrace.nmt.text.corpora import CORPORA, Corpus, Text
from headrace.nmt.text.files import make_folder, replacing

__all__ = ["DownloadError", "download", "main"]

_TRIES = 4  # connections in a row that may break without a byte having come
_TIMEOUT = 60.0  # seconds without a byte after which a connection counts as broken
_BLOCK = 1 << 20
_SUMS = "SHA256SUMS"
_SEGMENT = re.compile(rb"<seg[^>]*>(.*?)</seg>", re.DOTALL | re.IGNORECASE)


class DownloadError(hr.HeadraceError, OSError):
    """A corpus cannot be loaded: the message says what came and what to do."""


def download(corpus: Corpus, folder: Path, *, mirror: str | None = None, say: Callable[[str], None] = print) -> None:
    """Loads a corpus into a folder; what is there already is checked and not loaded again.

    Args:
        corpus: What to load, such as `CORPORA["iwslt15"]`.
        folder: Where to put it; made if need be.
        mirror: Address of a folder that has the files, in the place of the usual ones.
        say: Told of each file.

    Raises:
        DownloadError: A server cannot be reached or has no such file, a connection breaks again and again, a file is
            not what it should be, or an archive lacks a text.
        OSError: A file cannot be written.
    """
    make_folder(folder)
    if corpus.texts and all((folder / text.name).is_file() for text in corpus.texts):
        say(f"# {folder} has all texts already")
        return
    sums = _read_sums(folder)
    for remote in corpus.files:
        url = remote.url if mirror is None else f"{mirror.rstrip('/')}/{remote.name}"
        path, wanted = folder / remote.name, remote.sha256 or sums.get(remote.name)
        if path.is_file():
            found = _sha256(path)
            if wanted not in (None, found):
                raise DownloadError(
                    f"{path} is not the file of {url}: {_differ(wanted, found)}; delete it to load it anew"
                )
            say(f"# {path} is there")
        else:
            found = _fetch(url, path, wanted, say)
            say(f"# {path} loaded, {path.stat().st_size:,} bytes" + ("" if wanted else ", its checksum recorded"))
        if sums.get(remote.name) != found:
            sums[remote.name] = found
            _write(folder / _SUMS, [f"{value}  {name}\n".encode() for name, value in sorted(sums.items())])
    for text in corpus.texts:
        lines = _write(folder / text.name, _lines(folder, text))
        say(f"# {folder / text.name} made, {lines:,} lines")


def _differ(wanted: str | None, found: str) -> str:
    return f"expected SHA-256 {wanted}, got {found}"


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read_sums(folder: Path) -> dict[str, str]:
    path, sums = folder / _SUMS, {}
    for number, line in enumerate(path.read_text().splitlines() if path.is_file() else [], 1):
        found = re.fullmatch(r"([0-9a-f]{64}) [ *](.+)", line)
        if found is None:
            raise DownloadError(
                f"{path}, line {number}: expected a SHA-256 and a name, got {line[:80]!r}; mend the line"
            )
        sums[found[2]] = found[1]
    return sums


# Loading -------------------------------------------------------------------------------------------------------------


def _fetch(url: str, path: Path, wanted: str | None, say: Callable[[str], None]) -> str:
    """Loads a file, going on with what an earlier try has left; returns its SHA-256."""
    part = path.with_name(f"{path.name}.part")
    broken = 0
    while True:
        before = part.stat().st_size if part.is_file() else 0
        try:
            trouble = _connect(url, part)
        except urllib.error.HTTPError as error:
            raise DownloadError(
                f"{url}: the server says {error.code} {error.reason}; is there a mirror for --mirror?"
            ) from error
        except (OSError, http.client.HTTPException) as error:
            if isinstance(error, OSError) and error.filename is not None:  # of the part, not of the connection
                raise
            trouble = str(getattr(error, "reason", None) or error) or type(error).__name__
        if trouble is None:
            break
        now = part.stat().st_size if part.is_file() else 0
        broken = 0 if now > before else broken + 1
        if broken == _TRIES:
            raise DownloadError(
                f"{url}: {trouble}, {_TRIES} times in a row; {now:,} bytes are kept: the same command goes on"
            )
        say(f"# {path.name}: {trouble}; going on at byte {now:,}")
    found = _sha256(part)
    if wanted not in (None, found):
        part.unlink()
        _tag(part).unlink(missing_ok=True)
        raise DownloadError(
            f"{url} is not what it should be: {_differ(wanted, found)}. It was thrown away; try again, and if it comes "
            "again, the server has another file than this program knows"
        )
    part.replace(path)
    _tag(part).unlink(missing_ok=True)
    return found


def _connect(url: str, part: Path) -> str | None:
    """Loads what is missing of a file, as far as the connection lasts; returns what is wrong, None if it is whole."""
    have, tag = part.stat().st_size if part.is_file() else 0, _tag(part)
    headers = {"User-Agent": "headrace", "Accept-Encoding": "identity"}
    if have and tag.is_file():  # without one, nobody knows whether the rest belongs to it
        headers |= {"Range": f"bytes={have}-", "If-Range": tag.read_text()}
    try:
        reply = urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=_TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code != 416:
            raise
        error.close()
        if error.headers.get("Content-Range", "").rpartition("/")[2] == str(have):
            return None
        part.unlink()
        return f"the server has fewer than the {have:,} bytes of an earlier try"
    with reply:
        goes_on = reply.status == 206 and reply.headers.get("Content-Range", "").startswith(f"bytes {have}-")
        length = reply.headers.get("Content-Length")
        if not goes_on:
            have = 0
            mark = reply.headers.get("ETag", "")
            mark = mark if mark.startswith('"') else reply.headers.get("Last-Modified", "")
            tag.write_text(mark) if mark else tag.unlink(missing_ok=True)
        with part.open("ab" if goes_on else "wb") as file:
            came = _copy(reply, file)
    if length is not None and came < int(length):
        return f"the connection ended after {have + came:,} of {have + int(length):,} bytes"
    return None


def _copy(reply: IO[bytes], file: IO[bytes]) -> int:
    came = 0
    while block := reply.read(_BLOCK):
        file.write(block)
        came += len(block)
    return came


def _tag(part: Path) -> Path:
    return part.with_name(f"{part.name}.tag")


# Texts ---------------------------------------------------------------------------------------------------------------


def _lines(folder: Path, text: Text) -> Iterator[bytes]:
    """Yields the lines of all members of a text."""
    for archive, member in text.members:
        path = folder / archive
        try:
            with tarfile.open(path, "r|*") as packed:  # one pass, and nothing is written where the archive says
                found = next((info for info in packed if info.name.removeprefix("./") == member), None)
                file = None if found is None else packed.extractfile(found)
                if file is None:
                    raise DownloadError(
                        f"{path} has no text {member}: expected it in this archive; is it the right one?"
                    )
                yield from _sentences(file.read()) if member.endswith(".sgm") else _with_ends(file)
        except (tarfile.TarError, EOFError, OSError) as error:
            if isinstance(error, DownloadError):
                raise
            raise DownloadError(f"{path} is damaged: {error}; delete it and run the same command again") from error


def _with_ends(file: IO[bytes]) -> Iterator[bytes]:
    for line in file:
        yield line.rstrip(b"\r\n") + b"\n"


def _sentences(content: bytes) -> Iterator[bytes]:
    """Takes the sentences out of their tags."""
    for segment in _SEGMENT.findall(content):
        yield (
            " ".join(html.unescape(segment.decode("utf-8", "surrogateescape")).split()).encode(
                "utf-8", "surrogateescape"
            )
            + b"\n"
        )


def _write(path: Path, lines: Iterator[bytes] | list[bytes]) -> int:
    """Writes a file whole or not at all; returns how many lines."""
    count = 0
    with replacing(path) as temporary, temporary.open("wb") as file:
        for line in lines:
            file.write(line)
            count += 1
    return count


# The command ---------------------------------------------------------------------------------------------------------


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code."""
    return run_command("headrace.nmt.download", lambda: _run(argv))


def _run(argv: Sequence[str] | None) -> None:
    about = "\n".join(f"  {name}: {corpus.about}" for name, corpus in CORPORA.items())
    parser = Parser("download", f"Loads a corpus:\n{about}")
    parser.add_argument("name", choices=CORPORA, help="which corpus")
    parser.add_argument("folder", type=Path, help="where to put it")
    parser.add_argument("--mirror", metavar="URL", help="folder on a server that has the files, not the usual one")
    flags = parser.parse_args(argv)
    if flags.mirror is not None and not re.match(r"https?://[^/]", flags.mirror):
        raise DownloadError(f"mirror must be a URL, such as https://example.org/folder, got {flags.mirror}")
    download(CORPORA[flags.name], flags.folder, mirror=flags.mirror, say=_say)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
