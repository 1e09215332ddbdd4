"""What every worker needs. The process that forks workers imports this module once."""

import gainful.comparison
import gainful.formats.convert
import gainful.formats.letor.reader
import gainful.rankers.linear
import gainful.tuning  # noqa: F401
from fuzz import targets, worker  # noqa: F401
