"""The documentation's configuration; the sources are under the folder above, see `make docs`."""

from __future__ import annotations

import doctest
import sys
from pathlib import Path

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS / "_ext"), str(DOCS.parent)]

import raycompat  # noqa: E402

project = "raycompat"
author = "raycompat developers"
project_copyright = author
version = release = raycompat.__version__
root_doc = "docs/index"
include_patterns = ["docs/**.rst", "tutorials/**.rst"]
# Also folders beside the pages: Sphinx walks through what is not excluded, and environments are large.
exclude_patterns = [
    "docs/_*",
    ".*",
    "_build",
    "benchmarks",
    "changes",
    "dist",
    "locale",
    "packaging",
    "raycompat",
    "tests",
]
extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.doctest",
    "sphinx.ext.intersphinx",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "api_links",
    "bilingual",
    "breaks",
    "complete",
    "docstrings",
    "entries",
    "exampled",
    "generated",
    "notebooks",
    "releases",
    "sources",
    "timed",
]
# Sphinx's gettext builder looks for relative ones elsewhere than its html builder does.
templates_path = [str(DOCS / "_templates")]

nitpicky = True
show_warning_types = True
# Names of TensorFlow, PyTorch and the standard library, and type variables, which have no page here.
nitpick_ignore_regex = [
    ("py:(class|exc)", r"(str to |list of )?(tf|torch)\..*|multiprocessing\..*"),
    ("py:(class|obj)", r"ActorHandle\[T\]|raycompat\.actor\.T"),
]
# Names that these pages use, because builds read no network. TensorFlow and Keras publish no inventory.
intersphinx_mapping = {
    name: (address, str(DOCS / "_inventories" / f"{name}.inv"))
    for name, address in (
        ("python", "https://docs.python.org/3/"),
        ("numpy", "https://numpy.org/doc/stable/"),
        ("dask", "https://docs.dask.org/en/stable/"),
        ("distributed", "https://distributed.dask.org/en/stable/"),
    )
}
default_role = "code"
smartquotes = False

locale_dirs = ["locale"]
gettext_compact = False
# Code is not translated: what is tested is what is shown.
gettext_additional_targets: list[str] = []
gettext_allow_fuzzy_translations = False
translation_progress_classes = "untranslated"

# Functions and classes made in an example belong to a module that workers have, too.
doctest_global_setup = "__name__ = '__main__'"
doctest_default_flags = (
    doctest.ELLIPSIS
    | doctest.NORMALIZE_WHITESPACE
    | doctest.IGNORE_EXCEPTION_DETAIL
    | doctest.DONT_ACCEPT_TRUE_FOR_1
)
# Explicit directives only.
doctest_test_doctest_blocks = ""
trim_doctest_flags = True

autodoc_member_order = "bysource"
autodoc_typehints = "none"
add_module_names = False
toc_object_entries_show_parents = "hide"
napoleon_google_docstring = False
# Types are prose ("str to float"), not names to look up.
napoleon_use_param = False
napoleon_use_rtype = False

html_theme = "pydata_sphinx_theme"
html_theme_options = {
    "logo": {
        "text": "raycompat",
        "image_light": "_static/icon.svg",
        "image_dark": "_static/icon.svg",
    },
    # The switcher is shown at every width; what is in `navbar_end` hides in a narrow window's menu.
    "navbar_start": ["navbar-logo", "languages"],
    "navbar_center": [],
    "navbar_end": ["theme-switcher"],
    "secondary_sidebar_items": ["sections"],
    "primary_sidebar_end": [],
    "footer_start": ["license"],
    "footer_end": ["version"],
    "show_toc_level": 2,
}
html_sidebars = {"**": ["pages"]}
html_css_files = ["bilingual.css"]
html_js_files = ["bilingual.js"]
html_title = "raycompat"
html_favicon = str(DOCS / "_static" / "icon.svg")
html_static_path = [str(DOCS / "_static")]
html_show_sourcelink = False  # `sections.html` links to it
html_use_index = False
html_domain_indices = False
html_last_updated_fmt = None
# The text of results would be fetched, which pages opened from a disk may not do.
html_show_search_summary = False

# The code of a block without prompts and without what it prints.
copybutton_exclude = ".linenos, .gp, .go, .gt, .gr"
