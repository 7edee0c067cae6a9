from __future__ import annotations

import logging
import pathlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import headrace as hr
from headrace.cntk import CBFDeserializer, CTFDeserializer, MinibatchSource, StreamDef
from headrace.cntk.join import Join
from tests.cntk.fakes import InMemory, Memory, keys_of, rest

pytest.importorskip("scipy")


@given(
    st.lists(st.integers(0, 12), min_size=1, max_size=12),
    st.lists(st.integers(0, 12), min_size=1, max_size=20),
    st.integers(1, 5),
)
def test_sequences_come_with_the_first_of_their_key(first: list[int], second: list[int], chunk: int) -> None:
    a = Memory([1 + k % 3 for k in first], first, chunk)
    b = Memory([1 + k % 5 for k in second], second, 3, streams=("y",))
    pairs = [(i, second.index(key)) for i, key in enumerate(first) if key in second]
    if not pairs:
        with pytest.raises(
            hr.DataError, match=r"none of the .* sequences of a has a partner of the same key in all of b"
        ):
            Join([a, b], ["a", "b"], 9)
        return
    join = Join([a, b], ["a", "b"], 9)
    assert join.num_records == len(pairs)
    assert join.sizes is not None
    assert join.sizes.tolist() == [max(a.lengths_[i], b.lengths_[j]) for i, j in pairs]
    (own, _), (other, _) = join.parse(np.arange(len(pairs)))
    assert list(zip(own.tolist(), other.tolist(), strict=True)) == pairs
    whole = [i // chunk for i, _ in pairs]  # the chunk that each came from
    assert join.chunks.tolist() == [*(i for i in range(len(pairs)) if not i or whole[i] != whole[i - 1]), len(pairs)]
    assert join.samples().sum() == join.sizes.sum()
    assert join.where(0) == f"memory, sequence {pairs[0][0]}"


def test_what_is_left_out_is_said(caplog: pytest.LogCaptureFixture) -> None:
    first = InMemory([1] * 9, name="a.ctf")
    other = InMemory([1] * 4, keys=[8, 2, 2, 77], streams=("y",), name="b.ctf")
    source = MinibatchSource([first, other], randomize=False, max_sweeps=1)
    minibatch = source.next_minibatch(10)
    assert keys_of(minibatch) == keys_of(minibatch, "y") == [2, 8]
    assert [r.message for r in caplog.records if r.levelno == logging.WARNING] == [
        "7 of 9 sequences of a.ctf are left out, as b.ctf has none with their keys: 0, 1, 3, 4, 5, …",
        "b.ctf has 1 sequences whose key came before; the first of a key is read",
    ]


def test_the_longest_counts_unless_a_stream_defines_the_size() -> None:
    def sizes(*defines: str) -> list[int]:
        a = InMemory([1, 3], streams=("x",), defines=defines[0])
        b = InMemory([2, 1], streams=("y",), defines=defines[1])
        join = MinibatchSource([a, b], randomize=False)._join
        assert join.sizes is not None
        return [int(size) for size in join.sizes]

    assert sizes("", "") == [2, 3]
    assert sizes("x", "") == [1, 3]
    assert sizes("", "y") == [2, 1]
    with pytest.raises(hr.PlanError, match="only one deserializer may have a stream that defines the size"):
        sizes("x", "y")


def test_two_streams_of_one_name_are_refused_and_files_closed() -> None:
    one, two = InMemory([1], name="a"), InMemory([1], name="b")
    with pytest.raises(hr.PlanError, match="a and b both have a stream 'x'; name one differently"):
        MinibatchSource([one, two])
    assert one.source.closed
    assert two.source.closed


def test_each_has_a_budget_of_its_own() -> None:
    first = InMemory([1] * 6, bad=[1, 2], max_errors=2, name="a")
    other = InMemory([1] * 6, lost=[3], streams=("y",), max_errors=0, name="b")
    source = MinibatchSource([first, other], randomize=False, trace_level=0)
    assert keys_of(source.next_minibatch(3)) == [0, 1, 2]
    with pytest.raises(hr.DataError, match=r"\(max_errors=0\) while reading b; .*: mistake in 3"):
        source.next_minibatch(3)


def test_a_sequence_lost_in_one_is_lost_in_all() -> None:
    other = InMemory([1] * 6, lost=[3], streams=("y",), max_errors=1, name="b")
    source = MinibatchSource([InMemory([1] * 6), other], randomize=False, trace_level=0, max_sweeps=1)
    minibatch = source.next_minibatch(6)
    assert keys_of(minibatch) == keys_of(minibatch, "y") == [0, 1, 2, 4, 5]


def test_shuffles_keep_partners_together() -> None:
    keys = [5 * k % 31 for k in range(31)]
    other = InMemory([1 + k % 2 for k in range(40)], keys=list(range(40)), streams=("y", "s"), name="b")
    source = MinibatchSource(
        [InMemory([1 + k % 3 for k in keys], keys=keys), other], randomization_window_in_chunks=3, max_sweeps=2
    )
    seen = []
    while minibatch := source.next_minibatch(7):
        assert keys_of(minibatch) == keys_of(minibatch, "y")
        seen += keys_of(minibatch)
    assert sorted(seen) == sorted(2 * keys)
    assert rest(source, 7) == []


def test_text_is_joined_with_a_binary_file(tmp_path: pathlib.Path) -> None:
    hr.write_cbf(tmp_path / "a.cbf", {"f": hr.Ragged.from_rows([[[i], [i + 0.5]] for i in range(6)], np.float32)})
    (tmp_path / "a.ctf").write_text("".join(f"|y {i}\n" for i in range(4)))
    text = CTFDeserializer(tmp_path / "a.ctf", {"y": StreamDef(field="y", shape=1)})
    for keep in (False, True):
        binary = CBFDeserializer(
            tmp_path / "a.cbf", {"x": StreamDef(field="f")}, trace_level=2, keep_data_in_memory=keep
        )
        with MinibatchSource([text, binary], randomize=False, max_sweeps=1, trace_level=0) as source:
            assert rest(source, 100) == [
                {
                    "y": [[[0]], [[1]], [[2]], [[3]]],
                    "x": [[[0], [0.5]], [[1], [1.5]], [[2], [2.5]], [[3], [3.5]]],
                    "end": True,
                }
            ]
            assert source.current_position == 8
    with MinibatchSource([binary, text], randomize=False, max_sweeps=1, trace_level=0) as source:
        assert [len(batch["x"]) for batch in rest(source, 4)] == [2, 2]
    with pytest.raises(ValueError, match="stream name for key 'x' must be specified"):
        CBFDeserializer("a.cbf", {"x": StreamDef()})


def test_a_source_without_sequences_is_refused() -> None:
    nothing = InMemory([], name="nothing.ctf")
    with pytest.raises(hr.DataError, match=r"nothing\.ctf has no sequences"):
        MinibatchSource(nothing)
    assert nothing.source.closed


def test_one_sample_each_counts_where_sizes_are_not_told() -> None:
    plain = InMemory([1, 1, 1], sizes=False)
    join = MinibatchSource([plain, InMemory([1, 3, 2], streams=("y",), name="y")], randomize=False)._join
    assert join.sizes is not None
    assert join.sizes.tolist() == [1, 3, 2]
    join = MinibatchSource([plain, InMemory([1, 1, 1], streams=("y",), name="y", sizes=False)], randomize=False)._join
    assert join.sizes is None
