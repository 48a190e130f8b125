"""What displays of curves share."""

import inspect

import pytest
from numpy.testing import assert_array_equal
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skhash import LSHHasher
from skhash.displays import PrecisionAtNDisplay, PrecisionRecallDisplay, TieRangeDisplay
from skhash.metrics import relevance_histogram


@pytest.mark.parametrize("cls", [PrecisionRecallDisplay, PrecisionAtNDisplay])
def test_several_curves_share_one_axes_and_a_legend(cls, digits, itq, histogram):
    H = histogram(itq)
    short = relevance_histogram(
        itq.transform(digits.X_query)[:, :5], itq.transform(digits.X)[:, :5], digits.y_query, digits.y
    )
    display = cls.from_histograms({"itq": H, "talr-mlp": short})
    single = cls.from_histogram(short)
    assert [line.get_label() for line in display.lines_] == ["itq", "talr-mlp"]
    assert [text.get_text() for text in display.ax_.get_legend().get_texts()] == ["itq", "talr-mlp"]
    assert_array_equal(display.lines_[1].get_xydata(), single.lines_[0].get_xydata())
    assert single.ax_.get_legend() is None
    assert display.lines_[1].get_linestyle() == "--"
    assert isinstance(display.precision, list)


@pytest.mark.parametrize("cls", [PrecisionRecallDisplay, PrecisionAtNDisplay])
def test_curves_of_a_pipeline(cls, digits, histogram):
    model = make_pipeline(StandardScaler(), LSHHasher(nbits=12, random_state=0)).fit(digits.X, digits.y)
    display = cls.from_estimator(model, digits.X_query, digits.y_query)
    H = histogram(model)
    assert_array_equal(display.precision, cls.from_histogram(H).precision)
    assert display.name == "LSH"


@pytest.mark.parametrize("cls", [PrecisionRecallDisplay, PrecisionAtNDisplay, TieRangeDisplay])
def test_what_is_no_histogram_is_named(cls, digits, itq):
    for other in (itq, itq.transform(digits.X), None):
        with pytest.raises(TypeError, match=f"`H` must be a RelevanceHistogram.* Got {type(other).__name__} instead"):
            cls.from_histogram(other)
    with pytest.raises(ValueError, match=r"`histograms` must be a dict .* Got an instance of ndarray instead"):
        cls.from_histograms(itq.transform(digits.X))


@pytest.mark.parametrize("method", ["from_histogram", "from_histograms", "from_estimator"])
@pytest.mark.parametrize(
    ("cls", "options"), [(PrecisionRecallDisplay, []), (PrecisionAtNDisplay, ["n"]), (TieRangeDisplay, ["metric"])]
)
def test_the_methods_show_the_options_of_their_display(cls, options, method):
    function = getattr(cls, method)
    shown = [p.name for p in inspect.signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY]
    assert shown == ["name"] * (method == "from_estimator") + [*options, "ax"]
    lines = inspect.getdoc(function).splitlines()
    documented = [line.split()[0] for line in lines if " : " in line]
    assert documented[documented.index("ax") - len(options) : documented.index("ax")] == options
