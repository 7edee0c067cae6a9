"""Tests of the surface of torch need torch; warnings of too many workers are of no interest on small machines."""

import pytest

pytest.importorskip("torch")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        item.add_marker(pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning"))
