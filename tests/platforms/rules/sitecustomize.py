"""Lays the rules of another system over every Python that has this folder on its path, before anything else runs.

``pytest --rules windows FILES`` sets the path and GAINFUL_RULES, and child processes inherit them.
"""

import os

if os.environ.get("GAINFUL_RULES") == "windows":
    import windows_rules

    windows_rules.lay()
elif os.environ.get("GAINFUL_RULES") == "macos":
    import macos_rules

    macos_rules.lay()
