from __future__ import annotations

import json
import re
from typing import Any

import pytest

import headrace as hr
from headrace.cntk import MinibatchSource
from tests.cntk.fakes import InMemory, values

pytest.importorskip("scipy")
LENGTHS = [1 + (7 * i) % 5 for i in range(29)]
SHUFFLES: list[dict[str, Any]] = [
    {"randomize": False},
    {"randomization_seed": 5, "randomization_window_in_chunks": 2},
    {"randomization_seed": 2, "randomization_window_in_chunks": 0, "randomization_window_in_samples": 25},
]


def make(**options: Any) -> MinibatchSource:
    lengths = options.pop("lengths", LENGTHS)
    return MinibatchSource(InMemory(lengths, streams=("x", "s")), **{"max_sweeps": 3, **options})


@pytest.mark.parametrize("shuffle", SHUFFLES)
@pytest.mark.parametrize("truncation", [0, 3])
@pytest.mark.parametrize("workers", [{}, {"num_data_partitions": 2, "partition_index": 1}])
def test_a_state_goes_on_with_the_uninterrupted_rest(
    shuffle: dict[str, Any], truncation: int, workers: dict[str, Any]
) -> None:
    options = {**shuffle, "truncation_length": truncation}
    source, states, found = make(**options), [], []
    while True:
        states.append(json.loads(json.dumps(source.get_checkpoint_state())))
        minibatch = source.next_minibatch(13, **workers)
        if not minibatch:
            break
        found.append(values(minibatch))
    used = make(**options, multithreaded_deserializer=True)
    for at, state in enumerate(states):
        for again in (make(**options), used):
            again.restore_from_checkpoint(state)
            assert again.get_checkpoint_state() == state
            rest = []
            for _ in range(4 if again is used else 99):
                if not (minibatch := again.next_minibatch(13, **workers)):
                    break
                rest.append(values(minibatch))
            assert rest == (found[at : at + 4] if again is used else found[at:])
    used.close()


def test_a_position_alone_is_taken_as_cntk_gives_it() -> None:
    source = make(**SHUFFLES[1])
    source.next_minibatch(10)
    position, expected = source.current_position, values(source.next_minibatch(10))
    source.restore_from_checkpoint({"minibatchSourcePosition": position})
    assert values(source.next_minibatch(10)) == expected
    source.current_position = position
    assert source.current_position == position
    assert values(source.next_minibatch(10)) == expected


def test_a_position_inside_a_sequence_goes_to_the_next() -> None:
    source = MinibatchSource(InMemory([3, 3, 3]), randomize=False)
    source.current_position = 4
    assert source.current_position == 6
    source.current_position = 9 * 10**9 + 1
    assert source.current_position == 9 * 10**9 + 3
    assert values(source.next_minibatch(3))["x"] == [[[10], [11], [12]]]


def test_the_position_alone_forgets_what_slots_held() -> None:
    source = make(randomize=False, truncation_length=2)
    source.next_minibatch(4)
    state = source.get_checkpoint_state()
    assert any(queue for queue in state["slots"])
    source.current_position = source.current_position
    assert source.get_checkpoint_state()["slots"] == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"randomization_seed": 6}, "another order: {'seed': 5} then, {'seed': 6} now"),
        (
            {"randomization_window_in_chunks": 3},
            "another order: {'window': [2, 'chunks']} then, {'window': [3, 'chunks']} now",
        ),
        ({"truncation_length": 3}, "another order: {'truncation_length': 0} then, {'truncation_length': 3} now"),
        ({"lengths": [1, *LENGTHS]}, "another order: {"),
        ({"lengths": LENGTHS[::-1]}, None),
        ({"max_sweeps": 1}, "reading ends after"),
    ],
)
def test_a_state_of_something_else_is_refused(options: dict[str, Any], message: str | None) -> None:
    source = make(**SHUFFLES[1])
    for _ in range(9):
        source.next_minibatch(13)
    other = make(**{**SHUFFLES[1], **options})
    if message is None:  # the same to a fingerprint that knows counts alone
        other._checkpoints._about["data"] = [{"kind": "else"}]
        message = "another data: "
    with pytest.raises(hr.StateError, match=re.escape(message)):
        other.restore_from_checkpoint(source.get_checkpoint_state())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"minibatchSourcePosition": -1}, "minibatchSourcePosition: -1 is no number"),
        ({"minibatchSourcePosition": 1.5}, "1.5 is no number"),
        ({"minibatchSourcePosition": True}, "True is no number"),
        ({"minibatchSourcePosition": None}, "None is no number"),
        ({"headrace": 2}, "expected a state of version 1, got version 2"),
        ({"order": 7}, "another order: 7 then"),
        ({"slots": None}, "nothing about its slots"),
        ({"slots": [[[0, 1]]]}, "the state is damaged"),
        ({"slots": [[[0, "a", 0]]]}, "'a' is no number"),
        ({"slots": [[[999, 0, 0]]]}, "a slot holds a sequence that was not taken yet"),
        ({"partition": [1, 1]}, "a rank below the number of workers"),
        ({"partition": None}, "nothing about its slots"),
    ],
)
def test_damaged_states_are_refused(change: dict[str, Any], message: str) -> None:
    source = make(randomize=False, truncation_length=2)
    source.next_minibatch(6)
    state = source.get_checkpoint_state()
    with pytest.raises(hr.StateError, match=re.escape(message)):
        source.restore_from_checkpoint({**state, **change})
    assert source.get_checkpoint_state() == state


def test_states_without_sense_are_refused() -> None:
    source = make(randomize=False)
    source.next_minibatch(6)
    state = source.get_checkpoint_state()
    del state["data"]
    with pytest.raises(hr.StateError, match="the state has no 'data': it is cut short"):
        source.restore_from_checkpoint(state)
    with pytest.raises(hr.StateError, match="expected the dict that get_checkpoint_state"):
        source.restore_from_checkpoint("5")  # type: ignore[arg-type]
    between = MinibatchSource(InMemory([3, 3]), randomize=False)
    with pytest.raises(hr.StateError, match="no sequence begins 1 samples from the beginning"):
        between.restore_from_checkpoint({**between.get_checkpoint_state(), "minibatchSourcePosition": 1})
    with pytest.raises(hr.StateError, match="reading ends after 6"):
        MinibatchSource(InMemory([3, 3]), max_samples=4).restore_from_checkpoint({"minibatchSourcePosition": 7})
