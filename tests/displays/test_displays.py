"""Displays: what is drawn is what the metrics say."""

import matplotlib

matplotlib.use("agg")

import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.colors import to_hex
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError
from sklearn.manifold import TSNE
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skhash import DPSHHasher, HashNetHasher, ITQHasher, LSHHasher, StructHashHasher
from skhash.affinity import DistanceAffinity
from skhash.codes import hamming_distances
from skhash.comparison import compare
from skhash.displays import (
    BitBalanceDisplay,
    CodeMapDisplay,
    GapDisplay,
    MetricByBitsDisplay,
    PrecisionAtNDisplay,
    PrecisionRecallDisplay,
    QuantizationDisplay,
    RetrievedImagesDisplay,
    TieRangeDisplay,
)
from skhash.metrics import average_precision, ndcg, precision, recall, relevance_histogram


@pytest.fixture(autouse=True)
def no_figures():
    """Close what a test has drawn."""
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def itq(digits):
    return ITQHasher(nbits=12, random_state=0).fit(digits.X, digits.y)


@pytest.fixture(scope="module")
def structhash(digits):
    return StructHashHasher(5, n_relevant=8, n_irrelevant=8, n_queries=100, random_state=0).fit(digits.X, digits.y)


@pytest.fixture(scope="module")
def hashnet(digits):
    return HashNetHasher(nbits=8, n_epochs=6, n_stages=3, random_state=0).fit(digits.X, digits.y)


@pytest.fixture(scope="module")
def rows():
    return compare(methods=["itq", "lsh"], nbits=[8, 16], n_seeds=2)[0]


def histogram(hasher, digits, **options):
    codes = hasher.transform(digits.X_query), hasher.transform(digits.X)
    return relevance_histogram(*codes, digits.y_query, digits.y, **options)


def mean(rows, figure, method, nbits):
    return np.mean([row[figure] for row in rows if (row["method"], row["nbits"]) == (method, nbits)])


# --- ranges of ties


def test_tie_range_of_histograms_is_that_of_the_metric(digits, itq):
    lsh = LSHHasher(nbits=12, random_state=0).fit(digits.X)
    histograms = {"itq": histogram(itq, digits), "mine": histogram(lsh, digits)}
    for metric, function in (("ap", average_precision), ("ndcg", ndcg)):
        display = TieRangeDisplay.from_histograms(histograms, metric=metric)
        bars, points = display.ranges_.get_segments(), display.points_
        for H, bar, point, line in zip(histograms.values(), bars, points, (0, 1), strict=True):
            worst, average, best = (function(H, ties=ties) for ties in ("worst", "average", "best"))
            assert worst < average < best
            assert_allclose(bar, [[worst, line], [best, line]], rtol=1e-12)
            assert_allclose(point.get_xydata(), [[average, line]], rtol=1e-12)
        assert [text.get_text() for text in display.ax_.get_yticklabels()] == ["itq", "mine"]
        assert f"{points[0].get_xdata()[0]:.3f}" in [text.get_text() for text in display.ax_.texts]
        bottom, top = display.ax_.get_ylim()
        assert bottom > 1 > 0 > top  # the first method at the top


def test_tie_range_of_one_histogram_is_that_of_several(digits, itq):
    H = histogram(itq, digits)
    alone, named = TieRangeDisplay.from_histogram(H, "itq"), TieRangeDisplay.from_histograms({"itq": H})
    assert (alone.names, alone.worst, alone.best) == (named.names, named.worst, named.best)


def test_tie_range_of_rows_averages_the_seeds(rows):
    display = TieRangeDisplay.from_results(rows, nbits=8)
    assert display.names == ["itq", "lsh"]
    assert display.metric_name == "AP at 8 bits"
    for order, figure in (("average", "ap"), ("worst", "ap_worst"), ("best", "ap_best")):
        expected = [mean(rows, figure, method, 8) for method in display.names]
        assert_allclose(getattr(display, order), expected, rtol=1e-12)


def test_tie_range_of_an_estimator_ranks_as_its_score(digits, itq, structhash):
    for hasher, name in ((itq, "ITQ"), (structhash, "StructHash")):
        metric = hasher._score_metric()
        display = TieRangeDisplay.from_estimator(hasher, digits.X_query, digits.y_query, metric=metric)
        assert display.names == [name]
        assert_allclose(display.average, hasher.score(digits.X_query, digits.y_query), rtol=1e-12)
    weights = structhash.bit_weights_
    by_weights = histogram(structhash, digits, bit_weights=weights)
    assert_allclose(display.best, ndcg(by_weights, ties="best"), rtol=1e-12)


@pytest.mark.parametrize(
    ("name", "metric", "options"),
    [
        ("ndcg_at_20_structhash", ndcg, {"k": 20, "discount": "structhash"}),
        ("ap_at_20_retrieved", average_precision, {"k": 20, "normalizer": "retrieved"}),
        ("ap_at_20", average_precision, {"k": 20}),
    ],
)
def test_tie_range_takes_metrics_with_options(digits, itq, name, metric, options):
    H = histogram(itq, digits)
    display = TieRangeDisplay.from_histograms({"itq": H}, metric=name)
    expected = [metric(H, ties=ties, **options) for ties in ("worst", "average", "best")]
    assert_allclose([display.worst[0], display.average[0], display.best[0]], expected, rtol=1e-12)


# --- curves


def test_precision_and_recall_are_those_within_each_radius(digits, itq):
    H = histogram(itq, digits)
    line = PrecisionRecallDisplay.from_histogram(H).lines_[0]
    radii = range(13)
    assert_allclose(line.get_xdata(), [recall(H, radius=r) for r in radii], rtol=1e-12)
    assert_allclose(line.get_ydata(), [precision(H, radius=r) for r in radii], rtol=1e-12)


def test_the_radius_counts_bits_whatever_they_weigh(digits, structhash):
    display = PrecisionRecallDisplay.from_estimator(structhash, digits.X_query, digits.y_query)
    H = histogram(structhash, digits)
    assert_allclose(display.precision, [precision(H, radius=r) for r in range(6)], rtol=1e-12)


def test_precision_at_n_is_that_of_the_metric(digits, itq, structhash):
    H = histogram(itq, digits)
    line = PrecisionAtNDisplay.from_histogram(H, n=[1, 10, 400]).lines_[0]
    assert_array_equal(line.get_xdata(), [1, 10, 400])
    assert_allclose(line.get_ydata(), [precision(H, k=k) for k in (1, 10, 400)], rtol=1e-12)
    weighted = histogram(structhash, digits, bit_weights=structhash.bit_weights_)
    display = PrecisionAtNDisplay.from_estimator(structhash, digits.X_query, digits.y_query, n=[1, 10, 400])
    assert_allclose(display.precision, [precision(weighted, k=k) for k in (1, 10, 400)], rtol=1e-12)


def test_the_default_ranks_end_with_the_database(digits, itq, structhash):
    for hasher in (itq, structhash):
        display = PrecisionAtNDisplay.from_estimator(hasher, digits.X_query, digits.y_query)
        assert (display.n[0], display.n[-1], len(np.unique(display.n))) == (1, len(digits.X), len(display.n))


@pytest.mark.parametrize("cls", [PrecisionRecallDisplay, PrecisionAtNDisplay])
def test_several_curves_share_one_axes_and_a_legend(cls, digits, itq):
    H = histogram(itq, digits)
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
def test_curves_of_a_pipeline(cls, digits):
    model = make_pipeline(StandardScaler(), LSHHasher(nbits=12, random_state=0)).fit(digits.X, digits.y)
    display = cls.from_estimator(model, digits.X_query, digits.y_query)
    H = histogram(model, digits)
    assert_array_equal(display.precision, cls.from_histogram(H).precision)
    assert display.name == "LSH"


# --- figures by length


def test_figure_by_bits_holds_means_and_deviations(rows):
    for figure in ("ap", "precision_radius_2", "codes_per_second"):
        display = MetricByBitsDisplay.from_results(rows, figure=figure)
        for name, line, container in zip(["itq", "lsh"], display.lines_, display.errorbars_, strict=True):
            expected = [mean(rows, figure, name, nbits) for nbits in (8, 16)]
            assert_allclose(line.get_xydata(), np.column_stack([[8, 16], expected]), rtol=1e-12)
            for nbits, bar in zip((8, 16), container.lines[2][0].get_segments(), strict=True):
                values = [row[figure] for row in rows if (row["method"], row["nbits"]) == (name, nbits)]
                assert_allclose(np.diff(bar[:, 1]), 2 * np.std(values, ddof=1), rtol=1e-9)
        assert [text.get_text() for text in display.ax_.get_xticklabels()] == ["8", "16"]


def test_lengths_that_were_not_run_and_failed_fits_are_left_out(rows):
    some = [row for row in rows if (row["method"], row["nbits"]) != ("lsh", 16)]
    some = [row | {"ap": None} if (row["method"], row["seed"]) == ("itq", 1) else row for row in some]
    display = MetricByBitsDisplay.from_results(some)
    assert np.isnan(display.mean[1, 1])
    assert_array_equal(display.lines_[1].get_xdata(), [8])
    assert_array_equal(display.mean[0], [rows[0]["ap"], next(row["ap"] for row in rows if row["nbits"] == 16)])
    assert np.isnan(display.spread[0]).all()
    assert not display.errorbars_[0].has_yerr


def test_rows_of_one_data_set_are_chosen(rows):
    others = [row | {"dataset": "usps", "protocol": "5k", "ap": 0.5} for row in rows]
    both = rows + others
    assert_array_equal(MetricByBitsDisplay.from_results(both, dataset="usps").mean, np.full((2, 2), 0.5))
    assert_array_equal(
        MetricByBitsDisplay.from_results(both, dataset="digits").mean, MetricByBitsDisplay.from_results(rows).mean
    )
    with pytest.raises(ValueError, match="rows hold several values of dataset, digits, usps; one is wanted"):
        MetricByBitsDisplay.from_results(both)
    with pytest.raises(ValueError, match="rows hold several values of protocol, holdout, 5k"):
        MetricByBitsDisplay.from_results(rows + [row | {"protocol": "5k"} for row in rows])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda rows: TieRangeDisplay.from_results(rows), "rows hold several values of nbits, 8, 16"),
        (lambda rows: TieRangeDisplay.from_results(rows, nbits=32), "nbits=32 is not in rows; they hold 8, 16"),
        (lambda rows: MetricByBitsDisplay.from_results(rows, dataset="mnist"), "dataset='mnist' is not in rows"),
        (
            lambda rows: MetricByBitsDisplay.from_results(rows, figure="map"),
            "figure='map' is no figure .* hold ap, ap_worst",
        ),
        (lambda rows: MetricByBitsDisplay.from_results(rows, figure="nbits"), "figure='nbits' is no figure"),
        (lambda rows: TieRangeDisplay.from_results(rows, nbits=8, metric="ndcg"), "figure='ndcg_worst' is no figure"),
        (lambda rows: MetricByBitsDisplay.from_results([]), "rows holds no row with figures"),
    ],
)
def test_rows_that_do_not_do_are_refused(call, message, rows):
    with pytest.raises(ValueError, match=message):
        call(rows)


# --- what hashers keep


def test_quantization_reads_the_stages_and_relaxes_the_codes(digits, hashnet):
    display = QuantizationDisplay.from_estimator(hashnet, digits.X_query)
    stages = [entry for entry in hashnet.history_ if "beta" in entry]
    assert len(stages) == 3
    assert_array_equal(display.relaxed_line_.get_ydata(), [entry["relaxed_loss"] for entry in stages])
    assert_array_equal(display.binary_line_.get_ydata(), [entry["binary_loss"] for entry in stages])
    codes = np.tanh(stages[-1]["beta"] * hashnet.project(digits.X_query))
    expected = np.histogram(codes, bins=40, range=(-1, 1))[0] / codes.size
    assert_allclose([bar.get_height() for bar in display.bars_], expected, rtol=1e-9, atol=1e-12)
    assert display.gap_ in display.ax_[0].collections


def test_quantization_passes_rows_through_a_pipeline(digits):
    hasher = HashNetHasher(nbits=4, n_epochs=2, n_stages=1, random_state=0)
    model = make_pipeline(StandardScaler(), hasher).fit(digits.X, digits.y)
    display = QuantizationDisplay.from_estimator(model, digits.X_query)
    activations = model[-1].project(model[0].transform(digits.X_query))
    assert_array_equal(display.codes, np.tanh(display.beta[-1] * activations))


def test_gap_reads_the_history(structhash):
    display = GapDisplay.from_estimator(structhash)
    for name, line in display.lines_.items():
        assert_array_equal(line.get_xdata(), range(1, 6))
        assert_array_equal(line.get_ydata(), [entry[name] for entry in structhash.history_])
    assert display.lines_.keys() == {"objective", "bound", "gap", "effective_bits", "n_cuts"}
    assert display.tolerance == structhash.C_ * structhash.tol
    assert display.ax_.shape == (2, 2)


def test_hashers_without_the_history_are_refused(digits, itq, hashnet):
    with pytest.raises(ValueError, match=r"ITQHasher has no history_ with 'beta'.*; a HashNetHasher keeps one"):
        QuantizationDisplay.from_estimator(itq, digits.X_query)
    with pytest.raises(ValueError, match=r"HashNetHasher has no history_ with .*'objective'.*; a StructHashHasher"):
        GapDisplay.from_estimator(hashnet)
    dpsh = DPSHHasher(nbits=4, n_epochs=1, random_state=0).fit(digits.X, digits.y)
    with pytest.raises(ValueError, match="DPSHHasher has no history_"):
        QuantizationDisplay.from_estimator(dpsh, digits.X_query)
    with pytest.raises(NotFittedError):
        GapDisplay.from_estimator(StructHashHasher())


# --- codes


def test_bit_balance_draws_shares_and_correlations(digits, itq):
    display = BitBalanceDisplay.from_estimator(itq, digits.X)
    codes = itq.transform(digits.X).astype(float)
    for bar, share in zip(display.bars_, codes.mean(axis=0), strict=True):
        assert_allclose(sorted([bar.get_y(), bar.get_y() + bar.get_height()]), sorted([0.5, share]), rtol=1e-12)
    assert_allclose(display.image_.get_array(), np.abs(np.corrcoef(codes, rowvar=False)), rtol=0, atol=1e-12)
    assert display.image_.get_clim() == (0, 1)
    packed = BitBalanceDisplay.from_codes(itq.encode(digits.X), nbits=12)
    assert_array_equal(packed.correlation, display.correlation)


def test_bit_balance_of_constant_bits_has_no_nan():
    display = BitBalanceDisplay.from_codes(np.ones((10, 3), np.uint8))
    assert_array_equal(display.image_.get_array(), np.eye(3))


def test_code_map_is_the_embedding_of_scikit_learn(digits, itq):
    X, y = digits.X_query[:60], digits.y_query[:60]
    display = CodeMapDisplay.from_estimator(itq, X, y, perplexity=10)
    expected = TSNE(perplexity=10, metric="hamming", random_state=0).fit_transform(itq.transform(X))
    assert_array_equal(display.embedding, expected)
    drawn = dict(zip(np.unique(y), display.points_, strict=True))
    for label, points in drawn.items():
        assert_array_equal(points.get_offsets(), expected[y == label])
    assert [name.get_text() for name in display.names_] == [str(label) for label in np.unique(y)]
    assert len({(points.get_facecolor().tobytes(), len(points.get_paths()[0])) for points in display.points_}) == 10


def test_code_map_of_collapsed_codes():
    display = CodeMapDisplay.from_codes(np.zeros((40, 8), np.uint8))
    assert np.isfinite(display.embedding).all()


def test_code_map_draws_numbers_by_a_scale_and_nothing_in_grey():
    rng = np.random.default_rng(0)
    points, values = rng.standard_normal((50, 2)), rng.random(50)
    display = CodeMapDisplay(points, values).plot()
    assert_array_equal(display.points_[0].get_array(), values)
    assert display.colorbar_ is not None
    display = CodeMapDisplay(points).plot()
    assert (len(display.points_), display.names_, display.colorbar_) == (1, [], None)
    assert display.ax_.get_legend() is None


# --- images


def test_retrieved_images_are_the_nearest_with_ties_in_order(digits, itq):
    X, y = digits.X_query[:4], digits.y_query[:4]
    display = RetrievedImagesDisplay.from_estimator(itq, X, y, digits.X, digits.y, n_neighbors=6, image_shape=(8, 8))
    distances = hamming_distances(itq.transform(X), itq.transform(digits.X))
    drawn = iter(display.images_)
    for query in range(4):
        # (distance, place in the database) sorts ties by the order of the database
        order = sorted(range(len(digits.X)), key=lambda item, query=query: (distances[query, item], item))[:6]
        expected = [X[query], *digits.X[order]]
        for pixels in expected:
            assert_allclose(next(drawn).get_array(), pixels.reshape(8, 8) / 16, rtol=1e-12)
        assert_array_equal(display.relevant[query], digits.y[order] == y[query])
        assert_array_equal(display.distances[query], distances[query, order])
    right = display.relevant.ravel()
    assert 0 < right.sum() < right.size
    assert [mark.get_text() for mark in display.marks_] == ["✓" if hit else "✗" for hit in right]
    colours = {
        hit: {to_hex(f.get_edgecolor()) for f, h in zip(display.frames_, right, strict=True) if h == hit}
        for hit in (True, False)
    }
    assert [len(colour) for colour in colours.values()] == [1, 1]
    assert colours[True] != colours[False]
    assert "ties in the order of the database" in display.ax_.get_title()


def test_retrieved_images_weigh_bits_and_ask_the_affinity(digits, structhash):
    arguments = digits.X_query[:3], digits.y_query[:3], digits.X, digits.y
    display = RetrievedImagesDisplay.from_estimator(structhash, *arguments, n_neighbors=2, image_shape=(8, 8))
    codes = structhash.transform(digits.X_query[:3]), structhash.transform(digits.X)
    distances = hamming_distances(*codes, bit_weights=structhash.bit_weights_)
    assert_array_equal(display.distances, np.sort(distances, axis=1)[:, :2])
    affinity = DistanceAffinity(percentiles=(5,), levels=(1,))
    hasher = ITQHasher(nbits=8, affinity=affinity, random_state=0).fit(digits.X)
    display = RetrievedImagesDisplay.from_estimator(
        hasher, digits.X_query[:3], None, digits.X, None, n_neighbors=2, image_shape=(8, 8)
    )
    order = np.argsort(
        hamming_distances(hasher.transform(digits.X_query[:3]), hasher.transform(digits.X)), kind="stable"
    )
    expected = [hasher.affinity_(digits.X_query[[i]], digits.X[order[i, :2]])[0] > 0 for i in range(3)]
    assert_array_equal(display.relevant, expected)


@pytest.mark.parametrize("shape", [(3, 4, 5), (4, 5, 3), (1, 4, 5), (4, 5)])
def test_images_may_be_given_beside_the_rows(shape, digits, itq):
    images = np.random.default_rng(0).integers(0, 256, (len(digits.X), *shape), dtype=np.uint8)
    display = RetrievedImagesDisplay.from_estimator(
        itq, digits.X[:2], digits.y[:2], digits.X, digits.y, images[:2], images, n_neighbors=3
    )
    pixels = images[:1] / 255
    if shape[0] in (1, 3):
        pixels = np.moveaxis(pixels, 1, -1)
    assert_allclose(display.images_[0].get_array(), np.squeeze(pixels), rtol=1e-6)
    assert len(display.images_) == 2 * 4
    left, right, bottom, top = display.images_[1].get_extent()
    height, width = np.shape(display.images_[1].get_array())[:2]
    assert_allclose([right - left, bottom - top], [width / max(width, height), height / max(width, height)])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r"images_query has rows of shape \(64,\), with image_shape=None"),
        ({"image_shape": (8, 9)}, r"images_query has rows of shape \(64,\), with image_shape=\(8, 9\)"),
        ({"image_shape": (8, 8), "n_neighbors": 0}, "n_neighbors=0; an integer from 1 to 500"),
        ({"image_shape": (8, 8), "n_neighbors": 501}, "n_neighbors=501"),
        (
            {"image_shape": (8, 8), "images_database": np.zeros((3, 8, 8))},
            "images_database holds 3 images and X_database 500",
        ),
    ],
)
def test_images_that_do_not_do_are_refused(options, message, digits, itq):
    with pytest.raises(ValueError, match=message):
        RetrievedImagesDisplay.from_estimator(itq, digits.X_query, digits.y_query, digits.X, digits.y, **options)
