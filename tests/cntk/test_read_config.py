from __future__ import annotations

import logging
import os
import pathlib
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from headrace.cntk import ConfigError, ReaderConfig, StreamConfig, read_config
from headrace.plan.cntk_order import CntkWindow

Read = Callable[..., ReaderConfig]
WHOLE = (1 << 63) - 1
INPUT = 'input = [ x = [ dim = 5; format = "dense" ] ]'


@pytest.fixture
def read(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Read:
    """Reads a text as a configuration, in a folder that has the data `a.ctf` and `b.ctf`."""
    monkeypatch.chdir(tmp_path)
    for name in ("a.ctf", "b.ctf"):
        pathlib.Path(name).write_text("|x 1 2 3 4 5\n")

    def read(text: str, section: str | None = "reader", **more: Any) -> ReaderConfig:
        pathlib.Path("r.cntk").write_text(text)
        return read_config("r.cntk", section, **more)

    return read


def old(more: str = "", streams: str = INPUT) -> str:
    return f'reader = [\nreaderType = "CNTKTextFormatReader"\nfile = "a.ctf"\n{streams}\n{more}\n]'


def composite(more: str = "", inner: str = "", second: str = "") -> str:
    text = "{ type = CNTKTextFormatDeserializer; module = CNTKTextFormatReader; file = "
    both = f": {text} b.ctf; input = {{ y = {{ dim = 2; format = sparse }} }}; {second} }}" if second else ""
    return f"reader = {{\ndeserializers = (\n{text} a.ctf; {INPUT}\n{inner}\n}} {both})\n{more}\n}}"


def test_defaults_of_the_old_form(read: Read) -> None:
    config = read(old())
    (one,) = config.deserializers
    assert (one.kind, one.file) == ("ctf", "a.ctf")
    assert one.streams == config.streams == {"x": StreamConfig("x", "x", "dense", 5, False)}
    assert (one.skip_sequence_ids, one.max_errors, one.trace_level, one.chunk_size) == (False, 0, 1, 33554432)
    assert (one.cache_index, one.keep_data_in_memory, one.precision) == (False, False, "float")
    assert (config.randomize, config.seed, config.window) == (True, 0, CntkWindow(128))
    assert (config.frame_mode, config.truncated, config.truncation_length) == (False, False, 0)
    assert (config.max_errors, config.trace_level, config.precision) == (0, 1, "float")
    assert (config.verbosity, config.prefetch, config.multithreaded, config.warnings) == (0, True, None, ())


def test_all_parameters_of_the_old_form(read: Read) -> None:
    text = old(
        "RANDOMIZE = T; randomizationseed = 7; randomizationWindow = 3; skipSequenceIds = true; maxErrors = 4\n"
        "traceLevel = 2; chunkSizeInBytes = 1000; keepDataInMemory = 1; cacheIndex = True; truncated = true\n"
        "truncationLength = 20; precision = Double; verbosity = 0; prefetch = true",
        'input = [ b = [ alias = "B"; dim = 9; format = "SPARSE"; definesMBSize = true ]\n'
        "a = [ dim = 1; format=dense ]]",
    )
    config = read(text)
    (one,) = config.deserializers
    assert list(one.streams.values()) == [
        StreamConfig("a", "a", "dense", 1, False),
        StreamConfig("b", "B", "sparse", 9, True),
    ]
    assert (one.skip_sequence_ids, one.max_errors, one.trace_level, one.chunk_size) == (True, 4, 2, 1000)
    assert (one.cache_index, one.keep_data_in_memory, one.precision) == (True, True, "double")
    assert (config.seed, config.window) == (7, CntkWindow(3))
    assert (config.truncated, config.truncation_length, config.precision) == (True, 20, "double")
    assert config.warnings == ()
    assert pickle.loads(pickle.dumps(config)) == config


def test_names_are_looked_up_outwards_in_the_old_form(read: Read) -> None:
    outside = "precision = double; frameMode = true; traceLevel = 0; maxErrors = 9; randomizationSeed = 3\n"
    config = read(outside + old() + "\n")
    assert (config.precision, config.frame_mode, config.trace_level, config.seed) == ("double", True, 0, 3)
    assert config.deserializers[0].max_errors == 9
    with pytest.raises(ConfigError, match=r"line 2, column 10: expected input = \[ … \] with a section"):
        read(f"{INPUT}\n" + old("", ""))


def test_minus_one_is_without_limit(read: Read) -> None:
    config = read(old("chunkSizeInBytes = -1; maxErrors = -1; randomizationSeed = -1"))
    assert config.deserializers[0].chunk_size == WHOLE
    assert config.deserializers[0].max_errors == (1 << 32) - 1
    assert config.seed == (1 << 64) - 1
    assert config.window == CntkWindow(1)


@pytest.mark.parametrize(
    ("more", "window"),
    [
        ("", CntkWindow(128)),
        ("chunkSizeInBytes = 1048576", CntkWindow(4096)),
        ("randomizationWindow = 30", CntkWindow(30)),
        ("randomizationWindow = default", CntkWindow(128)),
        ("randomizationWindow = 30; sampleBasedRandomizationWindow = true", CntkWindow(30, "samples")),
        ("sampleBasedRandomizationWindow = true", CntkWindow(WHOLE, "samples")),
        ("randomize = auto; randomizationWindow = 2", CntkWindow(2)),
        ("randomize = None; randomizationWindow = 2", None),
        ("randomize = false", None),
        ("randomizationWindowInChunks = 5", CntkWindow(5)),
        ("randomizationWindowInChunks = 0; randomizationWindowInSamples = 5", CntkWindow(5, "samples")),
    ],
)
def test_windows_of_the_old_form(read: Read, more: str, window: CntkWindow | None) -> None:
    config = read(old(more))
    assert config.window == window
    assert config.randomize == (window is not None)


@pytest.mark.parametrize(
    ("more", "inner", "window"),
    [
        ("", "", CntkWindow(128)),
        ("", "chunkSizeInBytes = 1048576", CntkWindow(128)),
        ("chunkSizeInBytes = 1048576", "", CntkWindow(4096)),
        ("randomizationWindow = 30", "", CntkWindow(30, "samples")),
        ("randomizationWindow = 30; sampleBasedRandomizationWindow = false", "", CntkWindow(30)),
        ("sampleBasedRandomizationWindow = false", "", CntkWindow(128)),
        ("randomize = false; randomizationWindow = 30", "", None),
        ("action = write", "", None),
        ("randomizationWindowInChunks = 3", "", CntkWindow(3)),
    ],
)
def test_windows_of_the_composite_form(read: Read, more: str, inner: str, window: CntkWindow | None) -> None:
    assert read(composite(more, inner)).window == window


def test_the_window_of_a_composite_section_is_its_own(read: Read) -> None:
    assert read("randomizationWindow = 3\n" + composite()).window == CntkWindow(128)
    assert read("randomizationWindow = 3\n" + old()).window == CntkWindow(3)


def test_windows_of_binary_files(read: Read) -> None:
    text = "reader = {{ deserializers = ( {{ type = CNTKBinaryFormatDeserializer; file = a.ctf }} ); {} }}"
    assert read(text.format("")).window == CntkWindow(WHOLE, "samples")
    assert read(text.format("sampleBasedRandomizationWindow = false")).window == CntkWindow(WHOLE)
    assert read(text.format("randomizationWindow = 7")).window == CntkWindow(7, "samples")


def test_several_deserializers(read: Read) -> None:
    config = read(
        composite(
            "maxErrors = 2; traceLevel = 0; multiThreadedDeserialization = true; frameMode = true; precision = double",
            "maxErrors = 5; skipSequenceIds = true; traceLevel = 2; chunkSizeInBytes = 99; keepDataInMemory = true",
            "cacheIndex = true",
        )
    )
    first, second = config.deserializers
    assert (first.file, first.max_errors, first.skip_sequence_ids, first.chunk_size) == ("a.ctf", 5, True, 99)
    assert (first.keep_data_in_memory, first.cache_index, first.trace_level) == (True, False, 0)
    assert (second.file, second.max_errors, second.skip_sequence_ids) == ("b.ctf", 0, False)
    assert (second.chunk_size, second.cache_index, second.precision) == (33554432, True, "double")
    assert list(config.streams) == ["x", "y"]
    assert (config.max_errors, config.trace_level, config.multithreaded, config.frame_mode) == (2, 0, True, True)


def test_binary_files_describe_their_streams_themselves(read: Read) -> None:
    stream = "input = [ words = [ alias = w ] ]"
    one = read(f'reader = [ readerType = CNTKBinaryReader; file = "a.ctf"; {stream} ]').deserializers[0]
    assert (one.kind, one.streams) == ("cbf", {"words": StreamConfig("words", "w", None, None)})
    assert read('reader = [ readerType = CNTKBinaryReader; file = "a.ctf" ]').streams == {}


def test_sections_within_others(read: Read) -> None:
    inner = "train = [ precision = double\n" + old() + "\n]\nmnist.reader = " + old("randomize = 0").partition("=")[2]
    assert read(inner, "train.reader").precision == "double"
    assert not read(inner, "MNIST.reader").randomize
    assert read('readerType = CNTKTextFormatReader; file = "a.ctf"; ' + INPUT, None).deserializers[0].file == "a.ctf"
    with pytest.raises(ConfigError, match=r"^r\.cntk: expected a section 'reader', found none; readers stand in: tra"):
        read(inner)
    with pytest.raises(ConfigError, match="no section has a readerType or deserializers"):
        read("a = [ b = 1 ]")


def test_arguments_are_the_last_entries(read: Read, tmp_path: pathlib.Path) -> None:
    text = "data = nothing; errors = 1\nreader = [ readerType=CNTKTextFormatReader\n"
    text += 'file="$data$.ctf"; maxErrors=$errors$\n'
    config = read(f"{text}{INPUT} ]", data="a", errors=5, reader={"input": {"x": {"dim": 6}}, "randomize": False})
    assert config.deserializers[0].file == "a.ctf"
    assert config.deserializers[0].max_errors == 5
    assert config.streams["x"].dim == 6
    assert (config.randomize, config.warnings) == (False, ())
    assert read(f"{text}{INPUT} ]", data="a", READER="[traceLevel=0]").trace_level == 0
    odd = tmp_path / "one; two.ctf"
    odd.write_text("|x 1\n")
    assert read(old().replace("a.ctf", "$data$"), data=odd).deserializers[0].file == str(odd)
    (warning,) = read(old(), maxErors=5).warnings
    assert warning == (
        "the argument maxErors: nothing in the configuration asks for maxErors, as $maxErors$ or as a parameter"
    )
    with pytest.raises(ConfigError, match=r"^the argument maxErrors: maxErrors: expected a whole number"):
        read(old(), maxErrors="many")


def test_several_files_and_files_included(read: Read, tmp_path: pathlib.Path) -> None:
    pathlib.Path("more.cntk").write_text("include = r.cntk\nreader = [ maxErrors = 8 ]\n")
    read(old("maxErrors = 3"))
    assert read_config("more.cntk").deserializers[0].max_errors == 8
    assert read_config(["r.cntk", pathlib.Path("more.cntk")]).deserializers[0].max_errors == 8
    assert read_config(["more.cntk", "r.cntk"]).deserializers[0].max_errors == 3
    with pytest.raises(ConfigError, match=r"r\.cntk, line 1, column 1: include: expected a configuration file"):
        read("include = nothing.cntk")
    with pytest.raises(ConfigError, match="found an empty list"):
        read_config([])
    with pytest.raises(FileNotFoundError):
        read_config(tmp_path / "none.cntk")


def test_paths_start_from_the_working_directory(
    read: Read, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read(old())
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    message = (
        r"line 3, column 9: file: expected a file, found none at 'a.ctf'; relative paths are looked for from the "
        r"working directory on; there is one beside the configuration: give base_dir='\.\.'"
    )
    with pytest.raises(ConfigError, match=message):
        read_config("../r.cntk")
    assert read_config("../r.cntk", base_dir=tmp_path).deserializers[0].file == str(tmp_path / "a.ctf")
    assert read_config("../r.cntk", must_exist=False).deserializers[0].file == "a.ctf"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("reader = 5", r"line 1, column 10: reader: expected a section"),
        ("reader = [\n file = a.ctf ]", r"line 1, column 10: reader: expected readerType .* or deserializers"),
        ("reader = [ readerType = CompositeDataReader ]", "expected deserializers beside readerType"),
        ("reader = [ readerType = HTKMLFReader ]", r"column 25: .*found 'HTKMLFReader', which isn't supported"),
        ("reader = [ readerType = x ]", "one of CNTKTextFormatReader, CNTKBinaryReader, found 'x', which is unknown"),
        ("reader = { deserializers = ( { type = ImageDeserializer } ) }", "'ImageDeserializer', which isn't supported"),
        ("reader = { deserializers = ( { file = a } ) }", r"line 1, column 30: expected a type in each"),
        ("reader = { deserializers = ( 5 ) }", r"line 1, column 30: deserializers: expected sections, .* found '5'"),
        ("reader = { deserializers = ( ) }", "expected at least one deserializer"),
        (composite() + "\nreader = [ readerType = CNTKTextFormatReader ]", "either deserializers or a readerType"),
        (composite().replace("a.ctf", '""'), r"line 3, column .*: expected file = \"…\""),
        ("reader = [ readerType = CNTKTextFormatReader ]", r'line 1, column 10: expected file = "…"'),
        (old(streams=""), r"line 1, column 10: expected input = \[ … \]"),
        (old(streams="input = []"), r"line 4, column 1: input: expected a section for each stream, found none"),
        (old(streams="input = 5"), r"line 4, column 9: input: expected a section"),
        (old(streams="input = [ x = 5 ]"), r"line 4, column 15: x: expected a section"),
        (old(streams="input = [ x = default ]"), "x: expected a section, found the word default"),
        (old(streams="input = [ x = [ dim = 5 ] ]"), r"line 4, column 11: x: expected format = …"),
        (old(streams="input = [ x = [ format = dense ] ]"), r"line 4, column 11: x: expected dim = …"),
        (
            "dim = 5; format = dense\n" + old(streams="input = [ x = [ alias = y ] ]"),
            r"line 5, column 11: x: expected dim",
        ),
        (
            old(streams="input = [ x = [ dim = 5; format = csr ] ]"),
            r"line 4, column 35: x: expected the format dense or sparse, found 'csr'",
        ),
        (old(streams="input = [ x = [ dim = five; format = dense ] ]"), "column 23: dim: expected a whole number"),
        (old(streams="input = [ x = [ dim = 2147483648; format = dense ] ]"), "from 0 to 2147483647"),
        (
            old(streams='input = [ x = [ dim = 5; format = dense; alias = "" ] ]'),
            r"line 4, column 51: x: expected an alias, .* found an empty one",
        ),
        (
            old(streams='input = [ x = [ dim = 5; format = dense; alias = "a|b" ] ]'),
            r"line 4, column 51: x: alias 'a\|b' holds '\|'",
        ),
        (
            old(streams="input = [ two words = [ dim = 5; format = dense ] ]"),
            "two words: alias .* holds ' '",
        ),
        (
            old(streams="input = [ x = [dim=5; format=dense; alias = y ]\n y = [dim=5; format=dense] ]"),
            r"line 5, column 2: expected streams of different aliases, found 'y' for x and for y",
        ),
        (
            old(
                streams="input = [ x = [dim=5; format=dense; definesMBSize=T ]\n"
                "y = [dim=5; format=dense; definesMBSize=1] ]"
            ),
            r"line 5, column 41: expected one stream with definesMBSize, found x and y",
        ),
        (composite(second="input = [ x = [dim = 1; format=dense] ]"), "found 'x' in number 1 and in number 2"),
        (
            composite(
                inner="input = [ x = [definesMBSize = true] ]",
                second="input = [ z = [dim=1;format=dense;definesmbsize] ]",
            ),
            "expected one stream with definesMBSize in all deserializers, found x and z",
        ),
        (old("truncated = true"), r"line 5, column 1: truncated needs a truncationLength of at least 1"),
        (old("truncated = true; truncationLength = 0"), r"line 5, column 19: truncated needs a truncationLength"),
        (
            old("truncated = true; truncationLength = 5\nframeMode = true"),
            r"line 5, column 1: expected one of truncated and frameMode, found both \(frameMode at r\.cntk, line 6",
        ),
        (old("chunkSizeInBytes = 32MB"), r"line 5, column 20: chunkSizeInBytes: expected a whole number .* '32MB'"),
        (old("chunkSizeInBytes = 0"), r"line 5, column 20: chunkSizeInBytes: expected at least 1, found 0"),
        (composite("chunkSizeInBytes = 0"), "chunkSizeInBytes: expected at least 1, found 0"),
        (old("randomizationWindow = 0"), "randomizationWindow: expected at least 1, found 0; .*randomize = false"),
        (old("skipSequenceIds = yes"), r"line 5, column 19: skipSequenceIds: expected true or false, found 'yes'"),
        (old("randomize = maybe"), "randomize: expected true or false"),
        (old("traceLevel = -1"), "traceLevel: expected a number from 0"),
        (old("precision = half"), r"line 5, column 13: precision: expected float or double, found 'half'"),
        (old("maxErrors = [ a = 1 ]"), "maxErrors: expected a value, found a section"),
        (
            composite("sampleBasedRandomizationWindow = true"),
            r"line 6, column 1: sampleBasedRandomizationWindow needs a randomizationWindow",
        ),
        (
            old("randomizationWindow = 4; randomizationWindowInSamples = 5"),
            r"line 5, column 1: expected one window of the shuffle, found randomizationWindow besides",
        ),
        (
            old("randomizationWindowInChunks = 4; randomizationWindowInSamples = 5"),
            "found randomizationWindowInSamples besides randomizationWindowInChunks at r.cntk, line 5, column 1",
        ),
        (
            old("randomizationWindowInChunks = 4; sampleBasedRandomizationWindow = true"),
            "found sampleBasedRandomizationWindow besides randomizationWindowInChunks",
        ),
        (old().replace("a.ctf", "c.ctf"), r"line 3, column 9: file: expected a file, found none at 'c.ctf'"),
        (old().replace("a.ctf", "a\0.ctf"), "file: expected a path, found one with a zero byte"),
    ],
)
def test_what_is_refused(read: Read, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read(text)


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        (
            old("maxError = 5"),
            "r.cntk, line 5, column 1: unknown entry 'maxError' is passed over; did you mean maxErrors?",
        ),
        (old("dim = 5"), "unknown entry 'dim' is passed over; it belongs in a stream's section within input"),
        (old("miniBatchMode = partial"), "unknown entry 'miniBatchMode' is passed over"),
        (
            composite("skipSequenceIds = 1"),
            "unknown entry 'skipSequenceIds' is passed over; it belongs in a deserializer's",
        ),
        (composite(inner="randomize = 1"), "'randomize' is passed over; it belongs in a section with deserializers"),
        (old(streams="input = [ x = [ dimension = 4; dim = 5; format = dense ] ]"), "'dimension' is passed over"),
        (old("verbosity = 2"), "verbosity is without effect: the shuffle tells nothing"),
        (old("prefetch = false"), "prefetch is without effect"),
        (old("truncationLength = 5"), "truncationLength is without effect: truncated isn't true"),
        (composite("maxErrors = 5"), "maxErrors is without effect on text files here"),
        (composite("localTimeline = false"), "localTimeline is without effect: each worker walks"),
        (composite("checkData = false"), "checkData is without effect"),
        (composite("useNumericSequenceKeys = false"), "sequence ids are read as numbers"),
        (composite("hashSequenceKeys = true"), "sequence ids are read as numbers"),
        (composite(inner="composable = false"), "composable is without effect"),
        (
            composite().replace("= CNTKTextFormatReader", "= other"),
            "module is without effect: the type is read by CNTKTextFormatReader",
        ),
        (composite(inner="precision = double"), "precision is without effect here"),
        (composite(inner="frameMode = true"), "frameMode is without effect here"),
        (composite("traceLevel = 1", "traceLevel = 2"), "traceLevel is without effect here"),
        (
            old("maxErrors = 5").replace("CNTKTextFormatReader", "CNTKBinaryReader"),
            "line 5, column 1: maxErrors is without effect on binary files",
        ),
        (
            old("maxErrors = 5; maxErrors = 6"),
            "line 5, column 16: maxErrors replaces the value given at r.cntk, line 5",
        ),
        (old("= 5"), "line 5, column 1: expected a name before this value, found none; it is passed over"),
    ],
)
def test_what_is_told(read: Read, text: str, warning: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "headrace"):
        (found,) = read(text).warnings
    assert warning in found
    assert caplog.messages == [found]
    caplog.clear()
    assert len(read("traceLevel = 0\n" + text).warnings) >= 1
    if "traceLevel =" not in text:
        assert caplog.messages == []


def test_warnings_come_in_the_order_of_the_text_and_are_bounded(read: Read) -> None:
    found = read(old("b = 1\na = 2", streams=f"c = 3\n{INPUT}")).warnings
    assert [warning.partition("'")[2][0] for warning in found] == ["c", "b", "a"]
    found = read(old("\n".join(f"unknown{n} = 1" for n in range(300)))).warnings
    assert len(found) == 101
    assert found[-1] == "and 200 more"


def test_other_files_are_refused(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "r.cntk"
    for data, message in (
        (b"a = 1\nb = \xe9\n", r"r\.cntk, line 2, column 5: expected text in UTF-8, found the byte 0xe9"),
        ("a = 1".encode("utf-16"), "expected text in UTF-8, found UTF-16"),
        (b"|x 1 2 3\n" * 500_000, "at most 1,048,576 bytes, found more: is it data"),
    ):
        path.write_bytes(data)
        with pytest.raises(ConfigError, match=message):
            read_config(path)


def test_comments_end_what_is_included(read: Read) -> None:
    pathlib.Path("base.cntk").write_text("maxErrors = 6\n")
    assert read("include = base.cntk # the corpus\n# include = nothing\n" + old()).deserializers[0].max_errors == 6


@pytest.mark.parametrize("path", [5, None, True, b"c.cntk", "a\0b", ["c.cntk", 5], object()])
def test_what_is_no_path_is_refused(path: Any) -> None:
    with pytest.raises(ConfigError, match="expected the path of a configuration file, found"):
        read_config(path)


def test_arguments_of_other_types_are_refused(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "c.cntk"
    path.write_text("reader = []\n")
    for section in (5, ["reader"], b"reader", True):
        with pytest.raises(ConfigError, match="expected the name of a section, or None, found"):
            read_config(path, section)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="expected the path of a folder as base_dir, found 5"):
        read_config(path, base_dir=5)  # type: ignore[arg-type]
    for value in (None, [1], object(), {"a": [1]}):
        with pytest.raises(ConfigError, match="expected text, a number, a path or a mapping of those as argument"):
            read_config(path, data=value)  # type: ignore[arg-type]


def test_a_pipe_is_not_waited_for(tmp_path: pathlib.Path) -> None:
    os.mkfifo(tmp_path / "pipe.cntk")
    with pytest.raises(ConfigError, match=r"pipe\.cntk: expected a configuration file, found a pipe"):
        read_config(tmp_path / "pipe.cntk")
