"""Configuration of Sphinx: ``make -C docs html``."""

import os
import sys
from datetime import date
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "extensions"), str(HERE / "worked_example")]
os.environ.setdefault("OMP_NUM_THREADS", "1")  # the examples are small, and more threads are slower

from gallery import STYLE  # noqa: E402
from sources import linkcode_resolve  # noqa: E402, F401

import skhash  # noqa: E402

project = "skhash"
author = "The skhash developers"
copyright = f"{date.today().year}, {author}"
version = release = skhash.__version__

extensions = [
    "formulas",
    "mathml",
    "methods_table",
    "matplotlib.sphinxext.plot_directive",
    "myst_parser",  # for CHANGELOG.md, which is a page here, and pages in Markdown
    "numpydoc",
    "phone",
    "results_table",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.linkcode",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "sources",
]
source_suffix = {".rst": "restructuredtext", ".md": "markdown"}
exclude_patterns = ["_build", "auto_examples/**/*.ipynb", "**/GALLERY_HEADER.rst"]
exclude_patterns += ["README.md", "methods/README.md", "results/tables.md"]  # for readers on GitHub
templates_path = ["_templates"]
default_role = "literal"
smartquotes = False  # "relevant" is a value that readers copy
suppress_warnings = ["myst.header"]  # an included part begins below the title
toc_object_entries_show_parents = "hide"  # plot(), not SomeLongDisplay.plot(): the column is narrow
nitpicky = True

# --- the build needs no network; SKHASH_DOCS_INTERSPHINX=1 adds links to the pages of other projects
nitpick_ignore_regex = []
if os.environ.get("SKHASH_DOCS_INTERSPHINX"):
    extensions.append("sphinx.ext.intersphinx")
    intersphinx_mapping = {
        "matplotlib": ("https://matplotlib.org/stable", None),
        "numpy": ("https://numpy.org/doc/stable", None),
        "python": ("https://docs.python.org/3", None),
        "sklearn": ("https://scikit-learn.org/stable", None),
        "torch": ("https://docs.pytorch.org/docs/stable", None),
    }
else:
    nitpick_ignore_regex.append(("py:.*", r"(numpy|sklearn|torch|matplotlib)\..*"))

# --- docstrings
autodoc_default_options = {"member-order": "bysource"}
autodoc_typehints = "none"
autosummary_context = {
    # methods of scikit-learn, torch and Python are documented there
    "not_ours": "BaseEstimator, TransformerMixin, ClassNamePrefixFeaturesOutMixin, CallbackSupportMixin, "
    "Module, Mapping, tuple, BaseException",
    "excluded": "set_fit_request, set_partial_fit_request, set_output, get_metadata_routing, add_note, with_traceback",
}
numpydoc_show_class_members = False


def setup(app):
    """Leave out the fields of named tuples, which the class lists as its parameters."""
    app.connect(
        "autodoc-skip-member",
        lambda app, what, name, member, skip, options: (
            True if (getattr(member, "__doc__", None) or "").startswith("Alias for field number") else None
        ),
    )


numpydoc_validation_checks = {
    "all",
    "ES01",  # one line describes many functions completely
    "SA01",  # related functions are next to each other in the tables of this reference
    "SS05",  # a summary names what is returned, and "Metrics" is not a verb
}
numpydoc_validation_exclude = {
    r"Affinity\.(fit|possible_levels|__call__)$",  # one protocol, described in the user guide on affinities
    r"RetrievalMonitor\.(setup|teardown|on_fit_task_\w+)$",  # the callback protocol of scikit-learn
    r"\.(is_ragged|is_partial|n_queries|requires_y|has_fixed_queries|n_iter_)$",  # properties of one line
    r"Hasher\.\w+_$|Relevance\.(shape|targets)$",  # as well
    r"functions\.HashFunction$",  # is a protocol
    r"QueryFunction$",  # has the parameters of DenseFunction
    r"affinity\.Relevance$",  # is made by `of` and `between`
    r"Protocol\.draw_\w+$",  # functions that are fields
    # dataclasses that the example of a function returns
    r"comparison\.(\w+\.)?(Candidate|Difference|Plan|Progress|Provenance|Record|Result|Step)(\.\w+)?$",
    r"tuning\.best_candidate$",  # the example of tune shows it
    r"testing\.check_(?!hasher)\w+$",  # the example of check_hasher shows them
    # methods that the example of their class shows
    r"(Array|Function|Trainer|Encoder|Schedule|Smoothing|Objective|Display|Store|Metric|Method|Ranking)\.\w+$",
}
numpydoc_validation_overrides = {
    "PR03": "hidden_dropout",  # deep hashers list their own parameters before the shared ones
    "RT02": "self : object",  # the words of scikit-learn for the return value of fit
}

# --- formulas, figures, examples
html_math_renderer = "mathml"
plot_formats = [("svg", 100)]
plot_html_show_formats = False
plot_html_show_source_link = False  # the pages name the scripts
plot_basedir = "plots"
plot_working_directory = str(HERE / "plots")
plot_rcparams = STYLE | {"svg.fonttype": "path"}
plot_apply_rcparams = True

sphinx_gallery_conf = {
    "examples_dirs": ["../examples"],
    "gallery_dirs": ["auto_examples"],
    "filename_pattern": r"/plot_",
    "ignore_pattern": r"^_|fine_tune|several_processes|encode_on|search_texts",  # not run
    "download_all_examples": False,
    "first_notebook_cell": '%pip install -q "scikit-hash[all]" matplotlib',  # so that it runs elsewhere
    "write_computation_times": False,
    "remove_config_comments": True,
    "show_signature": False,
    "nested_sections": True,
    "subsection_order": ["../examples/recipes", "../examples/reproductions"],
    "reset_modules": ("matplotlib", "gallery.set_style"),
    "thumbnail_size": (640, 400),
    "within_subsection_order": "ExampleTitleSortKey",  # those of a paper stand together
    "parallel": True,  # also because OpenMP does not survive a fork of a process that used it
    "abort_on_example_error": False,
    "reference_url": {"skhash": None},
}

# --- looks
html_theme = "pydata_sphinx_theme"
html_title = "skhash"  # the switcher beside it has the version
html_static_path = ["_static"]
html_css_files = ["skhash.css"]
html_show_sourcelink = False
html_copy_source = False
SINGLE_PAGES = ("start", "glossary", "results", "results/*", "comparators", "contributing", "stability", "security")
html_theme_options = {
    "navbar_start": ["navbar-logo", "version-switcher"],
    "navbar_end": ["theme-switcher", "navbar-icon-links"],
    "github_url": "https://github.com/scikit-hash/scikit-hash",
    "switcher": {  # on the branch gh-pages, with the pages of each version
        "json_url": "https://scikit-hash.github.io/scikit-hash/versions.json",
        "version_match": "dev" if "dev" in version else ".".join(version.split(".")[:2]),
    },
    "check_switcher": False,  # the build needs no network
    "header_links_before_dropdown": 6,  # with the results
    "show_prev_next": True,
    "secondary_sidebar_items": {
        "methods/*": [],
        "index": [],
        **{page: ["page-toc"] for page in (*SINGLE_PAGES, "guide/*", "api/**", "auto_examples/**")},
    },
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {page: [] for page in (*SINGLE_PAGES, "index", "changelog", "citing", "methods/*")}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
