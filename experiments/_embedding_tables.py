"""Tables of experiments/embeddings.py in Markdown: paired differences of methods, and the choice of settings."""

import numpy as np
from _results import as_markdown

NAMES = {
    "text": "text",
    "fashion_mnist": "Fashion-MNIST",
    "mnist": "MNIST",
    "cifar10_gist512": "CIFAR-10 GIST",
}
BASELINES = {"itq_real": "ITQ (real)", "pq": "PQ", "opq": "OPQ", "rabitq": "RaBitQ"}


def make_tables(results, choice):
    """Markdown of all tables."""
    return (
        "\n\n".join(
            [
                "EmbeddingHasher with real queries, and its difference from each baseline on the same splits: mean ± "
                "standard error (number of splits). **Bold**: the baseline finds more neighbors.",
                difference_table(results, "recall_at_10", "R@10"),
                "Share of the ten nearest vectors among the first fifty items:",
                difference_table(results, "recall_at_10_of_50", "10 of 50"),
                "Mean of R@10 with real queries and by Hamming distance: of the default settings with a learning rate "
                "of 0.0003, and what changes of them gain, on held-out queries in no test split. A change without a "
                "mean has not been measured everywhere:",
                choice_table(choice),
                "Settings that are best on the three other sets, and their difference from the default ones on the set "
                "that is left out:",
                left_out_table(choice),
            ]
        )
        + "\n"
    )


def difference_table(results, key, label):
    """Mean of EmbeddingHasher per set and number of bytes, and its paired difference from each baseline."""
    values = {}
    for result in results:
        # RaBitQ has one bit per feature, and is compared with all lengths
        length = None if result["method"] == "rabitq" else result["nbits"]
        if key in result:
            values.setdefault((result["set"], result["method"], length), {})[result["seed"]] = result[key]
    lines = [["set", "bytes", label, *(f"minus {name}" for name in BASELINES.values())]]
    for name in NAMES:
        for nbits in sorted(
            nbits for set_name, method, nbits in values if (set_name, method) == (name, "learned_real")
        ):
            learned = values[name, "learned_real", nbits]
            cells = [with_error(list(learned.values()), "")]
            for method in BASELINES:
                baseline = values.get((name, method, None if method == "rabitq" else nbits), {})
                paired = [learned[seed] - baseline[seed] for seed in learned if seed in baseline]
                text = with_error(paired, "+") if paired else ""
                cells.append(f"**{text}**" if paired and np.mean(paired) < 0 else text)
            lines.append([NAMES[name], str(nbits // 8), *cells])
    return as_markdown(lines)


def with_error(values, sign):
    """Mean ± standard error, and the number of values."""
    error = f" ± {np.std(values, ddof=1) / np.sqrt(len(values)):.3f}" if len(values) > 1 else ""
    return f"{np.mean(values):{sign}.3f}{error} ({len(values)})"


def gains(choice):
    """Recall of each setting less that of the default one, by set and number of bits; these pairs; the default."""
    default = {(row["set"], row["nbits"]): mean_recall(row) for row in choice if row["settings"] == "default"}
    table = {}
    for result in choice:
        cell = result["set"], result["nbits"]
        table.setdefault(result["settings"], {})[cell] = mean_recall(result) - default[cell]
    return table, [cell for name in NAMES for cell in sorted(default) if cell[0] == name], default


def mean_recall(result):
    """Mean of the recalls with real queries and by Hamming distance."""
    return (result["real"] + result["hamming"]) / 2


def choice_table(choice):
    """Recall of the default settings, and gain of each other setting, per set and number of bits."""
    table, cells, default = gains(choice)
    lines = [["settings", *(f"{NAMES[name]}, {nbits} bits" for name, nbits in cells), "mean"]]
    for settings, values in sorted(table.items(), key=lambda item: (item[0] != "default", -len(item[1]), item[0])):
        shown, sign = (default, "") if settings == "default" else (values, "+")
        texts = [f"{shown[cell]:{sign}.3f}" if cell in values else "" for cell in cells]
        mean = f"{np.mean([shown[cell] for cell in cells]):{sign}.3f}" if len(values) == len(cells) else ""
        lines.append([settings, *texts, mean])
    return as_markdown(lines)


def left_out_table(choice):
    """Gain on each set of the settings that are best on the others; all sets count equally."""
    table, cells, _ = gains(choice)
    complete = {settings: values for settings, values in table.items() if len(values) == len(cells)}

    def gain(settings, names):
        of_sets = [[complete[settings][cell] for cell in cells if cell[0] == name] for name in names]
        return float(np.mean([np.mean(values) for values in of_sets]))

    lines = [["set left out", "settings", "gain"]]
    for name in NAMES:
        others = [other for other in NAMES if other != name]
        chosen = max(complete, key=lambda settings, others=others: gain(settings, others))
        lines.append([NAMES[name], chosen, f"{gain(chosen, [name]):+.3f}"])
    return as_markdown(lines)
