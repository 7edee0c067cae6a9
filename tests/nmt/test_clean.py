"""Cleaning parallel text."""

import gzip
import re
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from headrace.nmt import clean
from headrace.nmt.clean import Rules, Seen, main

PAIRS = [
    ("ein  Haus ", "a house", None),
    ("", "a house", "empty side"),
    ("ein Haus", "\t", "empty side"),
    ("ein Haus", "a house", "duplicate"),
    ("ein Haus", "the house", None),
    ("wort " * 81, "word " * 70, "too long"),
    ("ja", "yes " * 10, "lengths too different"),
    ("ja", "yes " * 9, None),
    ("x" * 101, "word", "word too long"),
    ("дом", "a house", "wrong script"),
    ("5 + 5 = 10", "5 + 5 is 10", None),
    ("London", "London", "both sides the same"),
]


def write(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "raw.de").write_text("".join(f"{source}\n" for source, _, _ in PAIRS))
    with gzip.open(folder / "raw.en.gz", "wt") as file:
        file.writelines(f"{target}\n" for _, target, _ in PAIRS)


def run(folder: Path, *more: str) -> int:
    prefixes = [f"--input_prefix={folder}/raw", f"--output_prefix={folder}/out/train"]
    return main(["--src=de", "--tgt=en", *prefixes, "--duplicates_mb=1", *more])


def test_each_fault(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path)
    assert run(tmp_path) == 0
    stay = [(source, target) for source, target, fault in PAIRS if fault is None]
    for side, suffix in enumerate(("de", "en")):
        lines = (tmp_path / f"out/train.{suffix}").read_text().split("\n")[:-1]
        assert lines == [" ".join(pair[side].split()) for pair in stay]
    out = capsys.readouterr().out.split("\n")
    assert out[0].startswith("# 4 of 12 pairs stay, in ")
    counts = dict(line.removeprefix("#   ").split(": ") for line in out[1:-1])
    assert counts == {
        fault: str(sum(found == fault for _, _, found in PAIRS)) for _, _, fault in PAIRS if fault is not None
    }
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"train.de", "train.en"}


def test_rules_that_are_off(tmp_path: Path) -> None:
    write(tmp_path)
    off = ["--max_words=0", "--max_ratio=0", "--max_word_length=0", "--src_script=any", "--keep_copies"]
    assert run(tmp_path, *off, "--duplicates_mb=0") == 0
    assert len((tmp_path / "out/train.de").read_text().split("\n")) - 1 == len(PAIRS) - 2  # the empty ones


@pytest.mark.parametrize(
    ("script", "text", "share"),
    [
        ("latin", "Müller und Søren", 1.0),
        ("cyrillic", "дом abc", 0.5),
        ("japanese", "水車のモーター", 1.0),
        ("chinese", "水車", 1.0),
        ("latin", "123 !", 1.0),
        ("greek", "abc", 0.0),
    ],
)
def test_scripts(script: str, text: str, share: float) -> None:
    assert clean._share(text, script) == share


def test_languages_name_their_script() -> None:
    found = {suffix: clean._script("auto", suffix) for suffix in ("de", "zh-CN", "lc.norm.tok.ru", "low")}
    assert found == {"de": "latin", "zh-CN": "chinese", "lc.norm.tok.ru": "cyrillic", "low": None}
    assert clean._script("thai", "de") == "thai"
    assert clean._script("any", "de") is None
    assert set(clean._OF_LANGUAGE.values()) <= set(clean._SCRIPTS)


def test_min_words() -> None:
    assert Rules(min_words=2).fault("one", "two words") == "too short"


def test_the_table_is_as_good_as_it_says() -> None:
    seen = Seen(1)
    assert not any(seen.add(f"{i}".encode()) for i in range(50_000))
    assert all(seen.add(f"{i}".encode()) for i in range(50_000))
    assert seen.count == 50_000
    assert seen.mistaken < 1e-8
    # Ten times as much as the table is good for: what it tells is an upper bound, and not far above.
    mistaken = sum(seen.add(f"new {i}".encode()) for i in range(2_000_000 // 4))
    assert mistaken / 500_000 <= seen.mistaken < 0.01


def test_memory_stays_the_same(tmp_path: Path) -> None:
    peaks = []
    for count in (20_000, 80_000):
        for suffix in ("de", "en"):
            (tmp_path / f"raw.{suffix}").write_text("".join(f"{suffix} line {i}\n" for i in range(count)))
        tracemalloc.start()
        assert run(tmp_path) == 0
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 300_000


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--max_words=-1"], "max_words must be a number that is not negative, got -1"),
        (["--max_ratio=nan"], "max_ratio must be a number that is not negative, got nan"),
        (["--min_words=5", "--max_words=3"], "no sentence has at least 5 words and at most 3"),
        (["--min_script=2"], "min_script is a share, at most 1, got 2.0"),
        (["--duplicates_mb=99999999999999"], "duplicates_mb is more memory than there is"),
        (["--src_script=runes"], "invalid choice: 'runes'"),
        (["--input_prefix=nowhere/raw"], r"expected this file \(or the same with .gz\), found none"),
    ],
)
def test_mistakes(tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], message: str) -> None:
    write(tmp_path)
    assert run(tmp_path, *flags) == 2
    error = capsys.readouterr().err
    assert error.startswith("headrace.nmt.clean: ")
    assert re.search(message, error)


def test_bad_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path)
    with (tmp_path / "raw.de").open("a") as file:
        file.write("one more\n")
    assert run(tmp_path) == 2
    assert re.search(r"raw\.en\.gz ends after 12 lines, .*raw\.de goes on", capsys.readouterr().err)
    assert list((tmp_path / "out").iterdir()) == []
    write(tmp_path)
    (tmp_path / "raw.en.gz").write_bytes((tmp_path / "raw.en.gz").read_bytes()[:-20])
    assert run(tmp_path) == 2
    assert "raw.en.gz cannot be unpacked" in capsys.readouterr().err
    write(tmp_path)
    packed = (tmp_path / "raw.en.gz").read_bytes()
    (tmp_path / "raw.en.gz").write_bytes(packed[:20] + b"\xff" * 40 + packed[60:])
    assert run(tmp_path) == 2
    assert "raw.en.gz cannot be unpacked" in capsys.readouterr().err
    assert run(tmp_path, f"--output_prefix={tmp_path}/raw") == 2
    assert "output_prefix would write over the input" in capsys.readouterr().err


def test_texts_are_prepared_without_pytorch(tmp_path: Path) -> None:
    """Cleaning, counting words and downloading only read and write texts."""
    (tmp_path / "a.de").write_text("ein Haus\n")
    (tmp_path / "a.en").write_text("a house\n")
    code = (
        "import sys; sys.modules['torch'] = None; from headrace.nmt import clean, download, vocab; "
        f"pair, made = ['--src=de', '--tgt=en'], {str(tmp_path)!r}; "
        "sys.exit(clean.main([*pair, f'--input_prefix={made}/a', f'--output_prefix={made}/b']) or "
        "vocab.main([*pair, f'--train_prefix={made}/b', f'--vocab_prefix={made}/v']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "v.en").read_text().split() == ["<unk>", "<s>", "</s>", "a", "house"]
