"""Sphinx's settings: `make docs` builds the site into docs/_build/html, without the network."""

import os

from sphinx.addnodes import pending_xref

import sklearn_dpmix

os.environ.setdefault("MPLBACKEND", "Agg")

project = "sklearn_dpmix"
author = "the sklearn_dpmix developers"
copyright = author
version = release = sklearn_dpmix.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "**.ipynb"]
templates_path = ["templates"]
root_doc = "index"

# pages in Markdown: anchors of headings, so that pages link to sections as they do on a code host
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence", "deflist"]

# the reference: one page an object, with the methods that are the package's own
autosummary_generate = True
autosummary_imported_members = True
autodoc_typehints = "none"
autodoc_member_order = "groupwise"
numpydoc_show_class_members = False
add_module_names = False
default_role = None

# Nothing is fetched, so what belongs to other projects is no link.
nitpick_ignore_regex = [("py:.*", r"(numpy|np|sklearn|scipy|joblib|numba|arviz|collections|typing)\b.*")]

sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "gallery",
    "filename_pattern": r"plot_",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "write_computation_times": False,
    "show_signature": False,
    "remove_config_comments": True,
    "plot_gallery": True,
    "reset_modules": ("matplotlib",),
    "min_reported_time": 1,
    "capture_repr": ("_repr_html_", "__repr__"),
}

html_theme = "pydata_sphinx_theme"
html_title = "sklearn_dpmix"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_show_copyright = False
html_theme_options = {
    "show_nav_level": 1,
    "navigation_depth": 2,
    "show_toc_level": 2,
    "header_links_before_dropdown": 6,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": [],
    "footer_end": [],
    "navbar_end": ["theme-switcher"],
}
html_sidebars = {"index": [], "start": [], "choose": []}


def skip_scikit_learn(app, what, name, obj, skip, options):
    """Leave out what every estimator has from scikit-learn, and its metadata routing."""
    routing = name == "get_metadata_routing" or (name.startswith("set_") and name.endswith("_request"))
    return True if routing or (getattr(obj, "__module__", None) or "").startswith("sklearn.") else None


def find_by_last_name(app, env, node, contnode):
    """A docstring says :class:`LaplaceMechanism`: find the public object of that name in whatever module it is."""
    domain, target = env.domains["py"], "." + node["reftarget"]
    found = [name for name in domain.objects if name.endswith(target) and "._" not in name]
    if node.get("refdomain") != "py" or len(found) != 1:
        return None
    return domain.resolve_xref(env, node["refdoc"], app.builder, node["reftype"], found[0], node, contnode)


def links_of_the_repository(app, doctree):
    """Pages link to files as a code host shows them; one of those files is a page here."""
    for node in doctree.findall(pending_xref):
        if node["reftarget"].endswith("datasets/PROVENANCE"):
            node["reftarget"] = "data"


def setup(app):
    app.connect("autodoc-skip-member", skip_scikit_learn)
    app.connect("missing-reference", find_by_last_name)
    app.connect("doctree-read", links_of_the_repository)
