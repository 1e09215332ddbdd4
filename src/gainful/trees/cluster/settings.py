"""LightGBM's settings on a cluster: those of the network between workers, and those that do not work there."""

from __future__ import annotations

import re
from typing import Any

from gainful.errors import ParameterError

MACHINES = ("machines", "workers", "nodes")
PORTS = ("local_listen_port", "local_port", "port")
TREE_LEARNERS = ("tree_learner", "tree", "tree_type", "tree_learner_type")
NETWORK = (*MACHINES, *PORTS, "time_out", *TREE_LEARNERS)
LEARNERS = ("data", "data_parallel", "voting", "voting_parallel")

# On a cluster these would give wrong trees or have no effect; by reason.
REFUSED = {
    "linear models in leaves are fitted to the rows of one worker": ("linear_tree", "linear_trees"),
    "the mean label that trees start from would not be transformed": ("reg_sqrt",),
    "the number of machines is that of the workers": ("num_machines", "num_machine", "machine_list_filename",
                                                      "machine_list_file", "machine_list", "mlist"),
}  # fmt: skip
GOSS = ("boosting", "boosting_type", "boost", "data_sample_strategy")
OFF = (None, False, 0, "", "false", "False", "0", "-")


def network_of(params: dict[str, Any]) -> dict[str, Any]:
    """The settings of the network, removed from LightGBM's parameters; raises for settings that a cluster lacks."""
    for why, names in REFUSED.items():
        for name in names:
            if params.get(name) not in OFF:
                raise ParameterError(f"engine_params must not set {name} on a cluster: {why}; leave it out")
    for name in GOSS:
        if params.get(name) == "goss":
            raise ParameterError(
                f'engine_params must not set {name}="goss" on a cluster: LightGBM starts it afresh each round; use '
                "subsample= instead"
            )
    network = {name: params.pop(name) for name in NETWORK if name in params}
    for name in TREE_LEARNERS:
        if name in network and network[name] not in LEARNERS:
            raise ParameterError(
                f"engine_params sets {name}={network[name]!r}; rows are spread over the workers of a cluster, so it "
                'must be "data" or "voting"'
            )
    for name in MACHINES:
        if name in network:
            _check_machines(name, network[name])
    return network


def _check_machines(name: str, machines: Any) -> None:
    each = machines.split(",") if isinstance(machines, str) else []
    well_formed = all(re.fullmatch(r"[^:\s]+:\d+", one) for one in each)
    if not each or not well_formed or len(set(each)) < len(each):
        raise ParameterError(f'{name} in engine_params must be "host1:12400,host2:12400", each once, was {machines!r}')
