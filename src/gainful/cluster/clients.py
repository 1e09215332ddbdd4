"""Clients of a Dask cluster: finding them, and checking that the workers can run gainful."""

from __future__ import annotations

import socket
from typing import Any

import distributed
from distributed.comm import addressing

import gainful
from gainful.errors import ClusterError, ParameterError

CONNECT_SECONDS = 10.0
WAIT_SECONDS = 30.0  # for a first worker: an adaptive cluster starts one only when there is work
SCHEMES = ("tcp", "tls", "ucx", "ws", "wss")  # of addresses with a port
VERSION = "__import__('gainful').__version__"  # as text: a worker without gainful could not unpickle a function of ours
_OPENED: dict[str, Any] = {}  # clients opened here, by address


def client_of(cluster: Any) -> Any:
    """The client for a ``Client``, the address of a scheduler, or a cluster such as ``LocalCluster``."""
    if isinstance(cluster, distributed.Client):
        client = cluster
    elif isinstance(cluster, str):
        client = _client_at(cluster)
    elif hasattr(cluster, "scheduler_address"):
        client = _client_at(cluster.scheduler_address)
    else:
        raise ParameterError.of("open_shards", "cluster", "a Client, an address or a Dask cluster", cluster)
    check_workers(client)
    return client


def close_clients() -> None:
    """Close the connections that gainful opened to clusters given by address, or as a Dask cluster.

    Data opened through them can no longer be used; your own clients stay open. The next call with an address connects
    again.
    """
    while _OPENED:
        _OPENED.popitem()[1].close()


def current_client() -> Any:
    """The client of this process, for data that does not name a cluster."""
    try:
        client = distributed.get_client()
    except ValueError:
        raise ClusterError(
            "training on Dask arrays and frames needs a cluster, and none is connected; start one first: "
            "client = distributed.Client('tcp://scheduler:8786'), or distributed.Client() on this machine"
        ) from None
    check_workers(client)
    return client


def _client_at(address: str) -> Any:
    known = _OPENED.get(address)
    if known is not None and known.status == "running":
        return known
    place = _place(address)
    try:
        if place is not None:
            socket.create_connection(
                place, timeout=CONNECT_SECONDS
            ).close()  # otherwise Dask would retry for a long time
        client = distributed.Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise ClusterError(
            f"no Dask scheduler answers at {address}: {first_line(error)}; is it running, and can it be reached?"
        ) from None
    _OPENED[address] = client
    return client


def _place(address: str) -> tuple[str, int] | None:
    """Host and port of an address, checked first: closing a half-open client raises a warning.

    None if the address has no host and port.
    """
    try:
        scheme, rest = addressing.parse_address(address)
        if scheme == "inproc":
            return None
        host, port = addressing.parse_host_port(rest)
        if scheme not in SCHEMES or not host or not 0 < port < 1 << 16:
            raise ValueError
    except ValueError:
        expected = "the address of a scheduler, as tcp://host:8786"
        raise ParameterError.of("open_shards", "cluster", expected, address) from None
    if scheme in ("tls", "wss") and distributed.Security().get_connection_args("client")["ssl_context"] is None:
        raise ParameterError(
            f"cluster {address} needs certificates; name them in Dask's configuration (distributed.comm.tls), or give "
            "a distributed.Client made with security="
        )
    return None if scheme == "ucx" else (host, port)


def check_workers(client: Any) -> None:
    """Raise if there is no worker, or if gainful is missing or has a different version on one."""
    if client.status != "running":
        raise ClusterError(f"the client of the Dask cluster is {client.status}; connect again")
    if not client.nthreads():
        _wait_for_worker(client)
    found = {f"worker {name}": answer for name, answer in client.run(eval, VERSION, on_error="return").items()}
    if not found:
        raise ClusterError("the Dask cluster has no workers; start some: dask worker ADDRESS")
    try:
        found["the scheduler"] = client.run_on_scheduler(eval, VERSION)
    except Exception as error:
        found["the scheduler"] = error
    for where, answer in found.items():
        if isinstance(answer, ModuleNotFoundError):
            raise ClusterError(
                f"{where} has no gainful ({answer}); install gainful {gainful.__version__} with the extra dask there"
            )
        if isinstance(answer, BaseException):
            raise ClusterError(f"{where} cannot load gainful: {first_line(answer)}")
        if answer != gainful.__version__:
            raise ClusterError(
                f"{where} has gainful {answer}, here it is {gainful.__version__}; install the same version everywhere"
            )


def _wait_for_worker(client: Any) -> None:
    """Wait for a first worker, with a task pending: an adaptive cluster starts none without work."""
    reason = client.submit(eval, "0", pure=False)
    try:
        client.wait_for_workers(1, timeout=WAIT_SECONDS)
    except TimeoutError:
        return  # the caller reports that there is none
    finally:
        reason.release()


def first_line(error: BaseException) -> str:
    """The first line of an error's message."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
