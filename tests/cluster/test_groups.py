"""Which blocks one task works on, and how it finds their values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

distributed = pytest.importorskip("distributed")

from gainful.cluster.groups import Member, group_blocks, in_block_order, look_up, members, wire  # noqa: E402

pytestmark = pytest.mark.cluster
WORKERS = ("a", "b", "c")


def test_blocks_are_grouped_by_worker_and_thread():
    assert group_blocks(["a", "a", "b", "b", "a"], {"a": 1, "b": 1}) == [(0, 1, 4), (2, 3)]
    assert group_blocks(["a"] * 5, {"a": 2}) == [(0, 1, 2), (3, 4)]
    assert group_blocks(["a", "b"], {"a": 8}) == [(0,), (1,)]  # b has come since
    assert group_blocks([("b", "a"), ("a", "b"), ("b", "a")], {}) == [(0, 2), (1,)]  # copies share the work


@given(
    st.lists(st.sets(st.sampled_from(WORKERS), min_size=1).map(tuple), min_size=1, max_size=12),
    st.fixed_dictionaries(dict.fromkeys(WORKERS, st.integers(1, 4))),
)
def test_every_block_is_in_one_group_of_a_worker_that_holds_it(holders, threads):
    groups = group_blocks(holders, threads)
    assert sorted(i for blocks in groups for i in blocks) == list(range(len(holders)))
    assert all(set.intersection(*(set(holders[i]) for i in blocks)) for blocks in groups)
    assert in_block_order(groups, groups) == list(range(len(holders)))


class Future(distributed.Future):
    """A future without a client; its result is known here."""

    def __init__(self, key, result):
        self.key, self.known = key, result

    def __del__(self):
        pass


@given(st.permutations(range(6)), st.integers(1, 5), st.integers(1, 5))
def test_a_task_finds_the_values_of_its_blocks_in_any_groups(order, first_cut, second_cut):
    """Values that were kept under other groups, as before a worker was lost, are found all the same."""

    def cut(at):
        return [tuple(order[:at]), tuple(order[at:])]

    held = members(cut(first_cut), [Future(f"held-{i}", [10 * b for b in g]) for i, g in enumerate(cut(first_cut))])
    own = tuple(Future(f"own-{i}", i) for i in range(6))
    plain = tuple(100 * i for i in range(6))
    assert isinstance(held.parts[0], Member)
    for blocks in cut(second_cut):
        rows, futures = wire([own, held.parts, plain], blocks)
        results = [future.known for future in futures]
        found = [tuple(look_up(value, results) for value in row) for row in rows]
        assert found == [(i, 10 * i, 100 * i) for i in blocks]
        assert len(futures) <= len(blocks) + 2
