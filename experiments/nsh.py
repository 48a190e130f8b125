"""NSH: codes of MNIST and GIST features without labels, the paper's ablations, and the time of a step.

    export SKHASH_DATA=FOLDER
    python experiments/nsh.py                        # every task, three random splits, about 25 minutes
    python experiments/nsh.py --tasks vectors        # the tasks whose name contains vectors
    python experiments/nsh.py --variants "own view"  # the variants whose name contains own view
    python experiments/nsh.py --quick                # one split, 300 steps, nothing stored
    python experiments/nsh.py --deviations           # the digits, with single differences from the paper undone
    python experiments/nsh.py --query-views          # both values of query_view on held-out training samples

32 bits, protocol "5k", without the labels of the training samples. The settings were chosen on
splits of the training samples of seed 0: fitted on 4,000, ranking the other 1,000. The results are
in experiments/results/nsh.json, the times of a step, with all tasks and variants only, in
nsh_step_times.json.

--query-views has held-out training samples, 4,000 to learn from and 1,000 that are ranked: the results are in
nsh_query_views.json, the table in nsh_query_views.md.

The augmentations are weak: if the initial codes do not find the other view of an image nearest, NSH
as in the paper learns wrong neighbors. The variant "own view first" is NSH with its default settings,
which take a given augmentation as the paper does not; all other variants have own_view="sorted", as in
the paper. "query of the items" has the query of the paper besides, and the others have our default.
The task "mnist strong images" has an ordinary augmentation and two hidden layers, and
CIBHash beside them.
"""

import argparse
import time
from itertools import product

import numpy as np
import torch
from _results import RESULTS, as_markdown, mean_text, rank, read, store
from _splits import rank_held_out, without_labels
from torch import nn

from skhash import CIBHashHasher, ITQHasher, NSHHasher
from skhash._threads import one_thread
from skhash.comparison import evaluate_hasher
from skhash.datasets import load_dataset
from skhash.engine import Encoder
from skhash.hashers.deep.nsh import NSHObjective

NBITS = 32
#: name, data set, variants
TASKS = [
    ("mnist images", "mnist", ["full", "query of the items", "own view first", "itq"]),
    ("mnist strong images", "mnist", ["full", "own view first", "cibhash", "itq"]),
    ("mnist vectors", "mnist", ["full", "query of the items", "itq"]),
    ("cifar gist vectors", "cifar_gist", ["full", "query of the items", "itq"]),
    (
        "mnist images ablations",
        "mnist",
        ["full", "hard_sort", "single_bottleneck", "no_quantization", "decoding", "no_softsort", "multi_label"],
    ),
]
#: sets that choose `query_view`, by training samples: data set, and whether its samples are images
QUERY_VIEW_SETS = {
    "digits": ("digits", False),
    "usps": ("usps", False),
    "mnist vectors": ("mnist", False),
    "fashion_mnist vectors": ("fashion_mnist", False),
    "cifar gist vectors": ("cifar_gist", False),
    "efficientnet vectors": ("cifar10_efficientnet1280", False),
    "mnist images": ("mnist", True),
    "fashion_mnist images": ("fashion_mnist", True),
}
FIVE_THOUSAND = ("usps", "mnist", "fashion_mnist", "cifar_gist")
QUERY_VIEWS, QUERY_VIEW_KEYS = RESULTS / "nsh_query_views.json", ("task", "nbits", "view", "seed")
FULL_EPOCHS, ABLATION_EPOCHS = 50, 20  # of 100 steps
DESCENDING = "a descending sort"
BATCH_SIZES = (50, 100, 200, 400, 800)


def jitter(images, degrees=5, shift=0.03, scale=0.05, shear=0.07):
    """Images with a small random rotation, shift, scale and shear, by one interpolation."""
    draw = 2 * torch.rand(5, len(images), device=images.device) - 1
    angle, stretch = draw[0] * degrees * np.pi / 180, torch.exp(scale * draw[1])
    cos, sin = torch.cos(angle), torch.sin(angle)
    columns = [cos * stretch, shear * draw[2] - sin, 2 * shift * draw[3], sin, cos / stretch, 2 * shift * draw[4]]
    grid = nn.functional.affine_grid(torch.stack(columns, 1).view(-1, 2, 3), list(images.shape), align_corners=False)
    return nn.functional.grid_sample(images, grid, align_corners=False)


def distort(images, degrees=14, shift=0.2, scale=0.2):
    """Images with an ordinary random rotation, shift (a share of the width) and scale, by one interpolation."""
    draw = 2 * torch.rand(4, len(images), 1, device=images.device) - 1
    angle, stretch = draw[0] * degrees * np.pi / 180, 1 + scale * draw[1]
    cos, sin = torch.cos(angle) / stretch, torch.sin(angle) / stretch
    y, x = ((2 * torch.arange(size, device=images.device) + 1) / size - 1 for size in images.shape[2:])
    # a sum of a vector per axis, three times as fast as `affine_grid`
    columns = (cos * x)[:, None, :] + (2 * shift * draw[2] - sin * y)[:, :, None]
    rows = (sin * x)[:, None, :] + (2 * shift * draw[3] + cos * y)[:, :, None]
    return nn.functional.grid_sample(images, torch.stack([columns, rows], -1), align_corners=False)


def small_network(channels=(16, 32, 64), width=256):
    """Network of three strided convolutions and one hidden layer, for 28 x 28 pixels."""
    layers, n_inputs = [], 1
    for n_outputs, size in zip(channels, (5, 3, 3), strict=True):
        convolution = nn.Conv2d(n_inputs, n_outputs, size, stride=2, padding=size // 2, bias=False)
        layers += [convolution, nn.BatchNorm2d(n_outputs), nn.ReLU()]
        n_inputs = n_outputs
    hidden = nn.Linear(16 * n_inputs, width, bias=False)
    return nn.Sequential(*layers, nn.Flatten(), hidden, nn.BatchNorm1d(width), nn.ReLU())


def load(dataset, as_images, seed):
    """Split without the labels of its training samples."""
    data = load_dataset(dataset, protocol="5k", random_state=seed)
    return without_labels(data, (1, 28, 28) if as_images else None)


def make(variant, as_images, n_epochs, seed, strong=False):
    """Hasher of a variant: NSH, or ITQ or CIBHash as a baseline."""
    if variant == "itq":
        return ITQHasher(NBITS, random_state=seed, store_database=False)
    if variant == "cibhash":
        return CIBHashHasher(NBITS, backbone="mlp", augment=distort, random_state=seed, store_database=False)
    options = {"random_state": seed, "store_database": False, "own_view": "sorted"}
    if variant == "own view first":
        variant, options["own_view"] = "full", None  # the default
    if variant == "query of the items":
        variant, options["query_view"] = "full", "items"
    if strong:
        return NSHHasher(NBITS, backbone="mlp", augment=distort, variant=variant, **options)
    if as_images:
        options |= {"backbone": small_network(), "augment": jitter, "deterministic": True}
    return NSHHasher(NBITS, variant=variant, n_epochs=n_epochs, batch_size=50, **options)


def run_task(name, dataset, variants, n_seeds, quick):
    """Results of one task, one per variant and seed."""
    results = []
    n_epochs = 3 if quick else ABLATION_EPOCHS if "ablations" in name else FULL_EPOCHS
    for variant in variants:
        as_images = "images" in name and variant != "itq"
        with torch.random.fork_rng():
            for seed in range(n_seeds):
                torch.manual_seed(seed)  # the initial weights of a given module are drawn here
                hasher = make(variant, as_images, n_epochs, seed, "strong" in name)
                metrics = evaluate_hasher(hasher, load(dataset, as_images, seed))
                results.append({"task": name, "variant": variant, "nbits": NBITS, "seed": seed, **metrics})
        chosen = [result for result in results if result["variant"] == variant]
        seconds = np.mean([result["fit_seconds"] for result in chosen])
        print(f"{name:22} {variant:18} AP_T {mean_text(chosen)}  fit {seconds:5.0f} s", flush=True)
    return results


def sort_descending(hasher):
    """Let the first row of each soft permutation hold the least similar item: a descending sort in eqs. 1 and 4."""

    def objective():
        made = NSHHasher._objective(hasher)
        contrast = made._contrast
        made._contrast = lambda codes, *rest: contrast((-codes[0], codes[1]), *rest)
        return made

    hasher._objective = objective


def run_deviations(n_seeds, name):
    """Store results on the digits: with single differences from the paper undone, and with the own view first."""
    as_in_paper = {
        "query of the items": {"query_view": "items"},
        "temperature of the sort": {"sort_temperature": "paper"},
        "weight 1 of the norms of rows": {"quantization_weight": 1.0},
        "no normalization of the bits": {"_batch_norm": ()},
    }
    settings = {"default": {}} | as_in_paper
    settings["all four"] = {name: value for change in as_in_paper.values() for name, value in change.items()}
    # of n equal rows, the norm is sqrt(n) times that of one
    settings["weight 1 of the norms of matrices"] = {"quantization_weight": 50**-0.5}
    settings |= {f"tau_c = {tau}": {"temperature": tau} for tau in (0.1, 0.5)}
    settings |= {DESCENDING: {}, "1,024 latent values": {"n_latent": 1024}}
    settings |= {"learning rate 0.00001": {"learning_rate": 1e-5}, "own view first": {"own_view": "first"}}
    for variant, change in settings.items():
        if name not in variant:
            continue
        results = []
        for seed in range(n_seeds):
            hasher = NSHHasher(NBITS, n_epochs=60, random_state=seed, store_database=False)
            for parameter, value in change.items():
                setattr(hasher, parameter, value)
            if variant == DESCENDING:
                sort_descending(hasher)
            metrics = evaluate_hasher(hasher, load_dataset("digits", random_state=seed))
            results.append({"task": "digits", "variant": variant, "nbits": NBITS, "seed": seed, **metrics})
            print(f"{variant:40} AP_T {mean_text([metrics])}", flush=True)
        store(RESULTS / "nsh.json", results, ("task", "variant"))


def run_query_views(n_seeds, name):
    """Store AP_T of both query views on held-out training samples; what is stored is not measured again."""
    for task, (dataset, as_images) in QUERY_VIEW_SETS.items():
        for seed, nbits, view in product(range(n_seeds), (16, 32, 64), ("anchor", "items")):
            cell = dict(zip(QUERY_VIEW_KEYS, (task, nbits, view, seed), strict=True))
            if name in task and not any(cell.items() <= result.items() for result in read(QUERY_VIEWS)):
                data = load_training_samples(dataset, as_images, seed)
                with torch.random.fork_rng():
                    torch.manual_seed(seed)
                    options = {}
                    if as_images:
                        options = {"backbone": small_network(), "augment": jitter, "n_epochs": FULL_EPOCHS}
                    options |= {"query_view": view, "random_state": seed, "own_view": "sorted", "deterministic": True}
                    hasher = NSHHasher(nbits, store_database=False, **options).fit(data.X_train)
                store(QUERY_VIEWS, [cell | rank(hasher, data, ["ap"])], QUERY_VIEW_KEYS)
                print(task, seed, nbits, view, read(QUERY_VIEWS)[-1]["ap"], flush=True)
    table = make_table_of_views(read(QUERY_VIEWS))
    QUERY_VIEWS.with_suffix(".md").write_text(table, encoding="utf-8")
    print(table)


def make_table_of_views(results):
    """Markdown of AP_T of both query views, means over the splits, and the mean gain over the numbers of bits."""
    lines = [["samples", "splits", *(f"{nbits} bits" for nbits in (16, 32, 64)), "gain of items"]]
    for task in QUERY_VIEW_SETS:
        rows = [row for row in results if row["task"] == task]
        if rows:
            means = {
                view: [np.mean([r["ap"] for r in rows if (r["view"], r["nbits"]) == (view, n)]) for n in (16, 32, 64)]
                for view in ("anchor", "items")
            }
            cells = [f"{anchor:.3f} / {items:.3f}" for anchor, items in zip(*means.values(), strict=True)]
            gain = np.mean(means["items"]) - np.mean(means["anchor"])
            lines.append([task, str(len({row["seed"] for row in rows})), *cells, f"{gain:+.3f}"])
    return as_markdown(lines) + "\n"


def load_training_samples(dataset, as_images, seed):
    """Split of training samples alone: 4,000 to learn from, or two thirds of a small set, and 1,000 that are ranked."""
    data = load_dataset(dataset, protocol="5k" if dataset in FIVE_THOUSAND else "holdout", random_state=seed)
    n_ranked = min(1000, len(data.X_train) // 3)
    order = np.random.default_rng(seed).permutation(len(data.X_train))[: n_ranked + 4000]
    split = rank_held_out(data.X_train, data.y_train, order[n_ranked:], order[:n_ranked], data.affinity)
    for part in ("X_train", "X_query", "X_database"):
        split[part] = split[part].reshape(-1, 1, 28, 28) if as_images else split[part]
    return split


def step_times(batch_sizes):
    """Milliseconds of the loss with its gradient on the CPU, and of the encoder alone."""
    results = []
    for n in batch_sizes:
        X = torch.rand(n, 784, generator=torch.Generator().manual_seed(0))
        with torch.random.fork_rng(), one_thread():
            torch.manual_seed(0)
            encoder = Encoder(784, NBITS, "mlp", batch_norm=True)
            objective = NSHObjective(lambda batch: batch + 0.1 * torch.randn_like(batch), 512, 784)
            times = {}
            for part in ("step", "encoder"):
                spent = []
                for _ in range(5):
                    start = time.perf_counter()
                    if part == "step":
                        loss = objective(encoder, X, None, None)
                    else:
                        loss = encoder(torch.cat([X, X])).square().mean()
                    loss.backward()
                    spent.append(1e3 * (time.perf_counter() - start))
                times[part] = min(spent)
        results.append({"batch_size": n, "step_ms": times["step"], "encoder_ms": times["encoder"]})
        print(f"batch {n:4}: step {times['step']:7.1f} ms, of which encoder {times['encoder']:6.1f} ms", flush=True)
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", default="", help="only tasks whose name contains this")
    parser.add_argument("--variants", default="", help="only variants whose name contains this")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one split, few steps, nothing stored")
    parser.add_argument("--deviations", action="store_true", help="undo single differences from the paper")
    parser.add_argument("--query-views", action="store_true", help="both query views on held-out training samples")
    options = parser.parse_args()
    if options.query_views:
        run_query_views(options.seeds, options.tasks)
        return
    if options.deviations:
        run_deviations(options.seeds, options.variants)
        return
    n_seeds = 1 if options.quick else options.seeds
    for name, dataset, variants in TASKS:
        if options.tasks in name:
            chosen = [variant for variant in variants if options.variants in variant]
            results = run_task(name, dataset, chosen, n_seeds, options.quick)
            if not options.quick:
                store(RESULTS / "nsh.json", results, ("task", "variant"))
    if options.tasks or options.variants:
        return
    times = step_times(BATCH_SIZES[:3] if options.quick else BATCH_SIZES)
    if not options.quick:
        store(RESULTS / "nsh_step_times.json", times, ("batch_size",))


if __name__ == "__main__":
    main()
