"""What TensorBoard gets: whole records, and the messages that it expects."""

import importlib
import math
import struct
from pathlib import Path
from typing import Any

import pytest

import headrace as hr
from headrace.nmt.train import train
from headrace.nmt.training.board import Board
from tests.nmt.conftest import Toy

Message = dict[int, list[Any]]


def parse(record: bytes) -> Message:
    """Reads a message of protocol buffers: its values by field number."""
    found: Message = {}
    place = 0

    def varint() -> int:
        nonlocal place
        value = shift = 0
        while True:
            byte = record[place]
            place += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while place < len(record):
        number, layout = divmod(varint(), 8)
        value: Any
        if layout == 0:
            value = varint()
        elif layout == 2:
            length = varint()
            value = record[place : place + length]
            place += length
        else:
            size, form = {1: (8, "<d"), 5: (4, "<f")}[layout]
            (value,) = struct.unpack(form, record[place : place + size])
            place += size
        found.setdefault(number, []).append(value)
    return found


def events(folder: Path) -> list[Message]:
    return [parse(bytes(record)) for record in hr.read_tfrecord(sorted(map(str, folder.glob("events.out.tfevents.*"))))]


def curves(found: list[Message]) -> dict[str, list[tuple[int, float]]]:
    points: dict[str, list[tuple[int, float]]] = {}
    for event in found:
        for value in parse(event[5][0])[1] if 5 in event else []:
            fields = parse(value)
            if 2 in fields:
                points.setdefault(fields[1][0].decode(), []).append((event[2][0], fields[2][0]))
    return points


def test_a_file_begins_with_its_version_and_a_session(tmp_path: Path) -> None:
    board = Board(tmp_path)
    board.begin(7)
    board.scalars(300, {"a": 1.5, "b": math.inf})
    board.flush()
    version, session, point = events(tmp_path)
    assert version[3] == [b"brain.Event:2"]
    assert session[2] == [8]
    assert parse(session[7][0])[1] == [1]
    assert point[1][0] > 1.6e9
    assert curves([point]) == {"a": [(300, 1.5)], "b": [(300, pytest.approx(3.4e38, rel=1e-6))]}
    board.close()


def test_pictures_and_texts(tmp_path: Path) -> None:
    board = Board(tmp_path)
    board.begin(0)
    png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", 20, 10) + b"rest"
    board.picture(4, "attention_images", png)
    board.text(5, "sample", "**mühle** mill")
    board.close()
    picture, text = (parse(parse(event[5][0])[1][0]) for event in events(tmp_path)[2:])
    assert picture[1] == [b"attention_images"]
    assert parse(picture[4][0]) == {1: [10], 2: [20], 3: [4], 4: [png]}
    assert text[1] == [b"sample"]
    assert parse(text[8][0])[8] == ["**mühle** mill".encode()]
    assert parse(parse(text[9][0])[1][0])[1] == [b"text"]


def test_nothing_is_written_where_nothing_should_be() -> None:
    board = Board(None)
    board.begin(0)
    board.scalars(1, {"a": 1.0})
    board.flush()
    board.close()


def test_a_run_and_its_continuation(toy: Toy) -> None:
    for steps in (10, 14):
        hparams = toy(num_train_steps=steps, steps_per_stats=1, max_gradient_norm=0.01, dropout=0.0)
        result = train(hparams, quiet=True)
    found = events(Path(str(hparams.out_dir), "train_log"))
    assert [event[2][0] for event in found if 7 in event] == [0, 11]
    points = curves(found)
    names = {
        "train_loss",
        "lr",
        "grad_norm",
        "clipped_gradient",
        "train_ppl",
        "speed",
        "avg_step_time",
        "avg_grad_norm",
    }
    assert points.keys() == names | {"dev_ppl", "test_ppl", "dev_bleu", "test_bleu"}
    for name in names:
        assert [step for step, _ in points[name]] == list(range(1, 15))
    for name in ("train_ppl", "dev_ppl"):
        assert [step for step, _ in points[name]] == [step for step, _ in result.curves[name]]
        assert [value for _, value in points[name]] == pytest.approx([value for _, value in result.curves[name]])
    assert [value for _, value in points["lr"]] == pytest.approx([0.01] * 14)
    assert [value for _, value in points["clipped_gradient"]] == pytest.approx([0.01] * 14)
    assert all(norm > 0.01 for _, norm in points["grad_norm"])
    rest = [parse(value) for event in found if 5 in event for value in parse(event[5][0])[1] if 2 not in parse(value)]
    assert {fields[1][0] for fields in rest} == {b"sample", b"attention_images"}
    picture = next(fields for fields in rest if fields[1] == [b"attention_images"])
    assert parse(picture[4][0])[4][0].startswith(b"\x89PNG")


def test_tensorboard_itself_reads_it(toy: Toy) -> None:
    module = "tensorboard.backend.event_processing.event_accumulator"
    try:
        accumulator = importlib.import_module(module)
    except ModuleNotFoundError:
        pytest.skip("tensorboard is not installed")
    for steps in (10, 12):
        hparams = toy(num_train_steps=steps, steps_per_stats=1)
        train(hparams, quiet=True)
    found = accumulator.EventAccumulator(str(Path(str(hparams.out_dir), "train_log")))
    found.Reload()
    assert [event.step for event in found.Scalars("train_loss")] == list(range(1, 13))
    assert [event.step for event in found.Images("attention_images")] == [10, 12]
    assert b"**reference**" in found.Tensors("sample")[0].tensor_proto.string_val[0]
