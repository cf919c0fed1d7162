"""Sphinx configuration: pages in Markdown, reference from the docstrings, nothing fetched."""

import alem

project = "alem"
author = "The alem contributors"
copyright = author
release = alem.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.mathjax"]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]

autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "show-inheritance": True}

html_theme = "furo"
html_title = f"alem {release}"
