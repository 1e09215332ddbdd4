"""A Python process with everything imported, for the modules that start many commands."""

from __future__ import annotations

import pytest
from prepared_python import PreparedPython


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    made = PreparedPython(tmp_path_factory.mktemp("streams"))
    yield made
    made.close()
