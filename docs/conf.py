"""Sphinx configuration: pages in Markdown, reference from the docstrings, nothing fetched."""

import alem

project = "alem"
author = "The alem contributors"
copyright = author
release = alem.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.mathjax"]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]

# Pages with code cells run when the documentation is built; a cell that fails, fails the build.
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_merge_streams = True
nb_number_source_lines = False

autodoc_member_order = "bysource"
autodoc_default_options = {
    "members": True,
    "show-inheritance": True,
    # Which scikit-learn writes.
    "exclude-members": "set_fit_request, set_partial_fit_request, set_score_request",
}

html_theme = "furo"
html_title = f"alem {release}"
