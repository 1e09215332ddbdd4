"""The papers' experiments again: our figures beside the published ones, under the papers' protocol and measure."""

from gainful.reproduction.artificial import Artificial
from gainful.reproduction.ohsumed import Ohsumed

__all__ = ["Artificial", "Ohsumed"]
