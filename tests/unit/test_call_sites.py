"""Where the program makes its objects, as text."""

from __future__ import annotations

from raycompat._caller import call_sites


def test_equal_functions_of_two_files_have_their_own_sites():
    def site_in(path):
        names = {"__name__": "program", "here": call_sites.here}
        exec(compile("def made():\n return here('put object')", path, "exec"), names)
        return names["made"]()

    assert "/one.py:made:2" in site_in("/one.py")
    assert "/two.py:made:2" in site_in("/two.py")
