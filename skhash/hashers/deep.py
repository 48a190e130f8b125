"""DeepHasher: an estimator around the torch engine, for methods that give an objective."""

import math
from abc import abstractmethod
from numbers import Integral, Real

import numpy as np
import torch
from sklearn.utils import check_random_state, gen_batches
from torch import nn

from skhash._compat import Interval, StrOptions
from skhash.base import ENCODE_ROWS, BaseHasher
from skhash.codes import binarize
from skhash.engine import Encoder, Schedule, one_thread, resolve_device, seeded, train_epochs
from skhash.metrics.counting import relevance_histogram
from skhash.metrics.named import parse_metric

# Input noise by default: the ratio p / (1 - p) of dropout grows with the features a row, as a penalty should.
# Chosen by validation on training rows of MNIST and USPS, for 1,000 to 25,000 rows.
NOISE, MAX_NOISE = 4.0, 3.0
EPOCHS = (30, 125)  # fewest and most epochs that a budget of steps is turned into


class DeepHasher(BaseHasher):
    """A hasher whose activations are a torch encoder's.

    A subclass lists the parameters in its `__init__`, implements `_objective`, and
    gives in `_recipe` what stands for the parameters that are left None.
    """

    _parameter_constraints = BaseHasher._parameter_constraints | {
        "backbone": [StrOptions({"mlp"}), nn.Module, None],
        "n_epochs": [Interval(Integral, 1, None, closed="left"), None],
        "batch_size": [Interval(Integral, 2, None, closed="left"), None],
        "learning_rate": [Interval(Real, 0, None, closed="neither"), None],
        "backbone_lr_scale": [Interval(Real, 0, None, closed="left")],
        "lr_schedule": [StrOptions({"cosine", "constant"}), callable],
        "optimizer": [StrOptions({"adam", "sgd"}), callable],
        "weight_decay": [Interval(Real, 0, None, closed="left"), None],
        "input_dropout": [Interval(Real, 0, 1, closed="left"), None],
        "hidden_dropout": [Interval(Real, 0, 1, closed="left")],
        "early_stopping": ["boolean"],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
        "device": [str, torch.device],
        "deterministic": ["boolean"],
        "random_state": ["random_state"],
    }

    _dtypes = [np.float32]  # larger values would overflow in the encoder: validation refuses them

    @abstractmethod
    def _objective(self):
        """The Objective to minimise; `affinity_` is fitted by now."""

    def _initialize(self, encoder, X, rng):
        """Set the first weights of the encoder, where a method has a better start."""

    @abstractmethod
    def _recipe(self):
        """Settings for the parameters that are left None; `n_steps` stands for `n_epochs`."""

    def _check_options(self):
        """Raise ValueError for options that do not go together."""

    def _settle(self, n_rows, n_features):
        """Fill the parameters that are left None, from the recipe and the size of the data."""
        recipe = self._recipe()
        batch_size = recipe["batch_size"] if self.batch_size is None else self.batch_size
        noise = min(NOISE * n_features / n_rows, MAX_NOISE)
        n_epochs = math.ceil(recipe["n_steps"] / math.ceil(n_rows / batch_size))
        recipe |= {"n_epochs": int(np.clip(n_epochs, *EPOCHS)), "input_dropout": noise / (1 + noise)}
        recipe.pop("n_steps")
        given = {name: getattr(self, name) for name in recipe}
        return {name: recipe[name] if value is None else value for name, value in given.items()}

    def _prepare(self, X):
        self._check_options()
        self.settings_ = self._settle(len(X), X.shape[1])
        return self.settings_["n_epochs"]

    def _fit(self, X, targets):
        device = resolve_device(self.device)
        rng = check_random_state(self.random_state)
        seed = int(rng.randint(np.iinfo(np.int32).max))
        order = np.random.default_rng(seed)
        learned, held_out = self._split(len(X), order)
        settings = self.settings_
        schedule = Schedule(**{name: settings.get(name, getattr(self, name)) for name in Schedule.__dataclass_fields__})
        with seeded(seed, device, self.deterministic), self._threads():
            encoder = Encoder(X.shape[1], self.nbits, self.backbone, settings["input_dropout"], self.hidden_dropout)
            rows = X if held_out is None else X[learned]
            row_targets = targets if held_out is None or targets is None else targets[learned]
            encoder.set_statistics(rows)
            self._initialize(encoder, rows, rng)
            run = train_epochs(encoder, self._objective(), rows, row_targets, schedule, order, device)
            validation = None if held_out is None else (X[held_out], targets[held_out], rows, row_targets)
            self._follow(run, encoder, X, targets, validation)

    def _threads(self):
        """One thread, for codes that do not depend on their number; a given backbone is free unless told."""
        return one_thread(self.deterministic or not isinstance(self.backbone, nn.Module))

    def _follow(self, run, encoder, X, targets, validation):
        """Go through the epochs: history, callbacks, early stopping on the validation rows."""
        self.history_, best, best_epoch = [], -np.inf, 0
        for epoch in range(1, self.settings_["n_epochs"] + 1):
            context = self._callback_fit_ctx.subcontext(task_name="epoch")
            context.call_on_fit_task_begin(estimator=self, X=X, y=targets)
            self.history_.append({"epoch": epoch, "loss": next(run)})
            if validation is not None:
                value = self._validate(encoder, *validation)
                self.history_[-1]["validation"] = value
                if value > best:
                    best, best_epoch = value, epoch
                    self._keep_weights(encoder)
            stop = context.call_on_fit_task_end(
                estimator=self, X=X, y=targets, reconstruction_attributes=lambda: self._snapshot(encoder, X, targets)
            )
            if stop or (validation is not None and epoch - best_epoch >= self.n_iter_no_change):
                break
        if validation is None:
            self._keep_weights(encoder)
        self.n_epochs_ = epoch

    def _split(self, n, order):
        """Row numbers to learn from, and the held-out ones (None without early stopping)."""
        if not self.early_stopping:
            return None, None
        n_held = min(max(1, round(n * self.validation_fraction)), n - 2)
        if n_held < 1:
            raise ValueError(f"X has {n} rows; early_stopping=True wants at least 3.")
        rows = order.permutation(n)
        return np.sort(rows[n_held:]), np.sort(rows[:n_held])

    def _validate(self, encoder, X, y, database_X, database_y):
        """Exact metric of the held-out rows, ranked against those that are learned from."""
        codes, database = (binarize(_activations(encoder, rows)) for rows in (X, database_X))
        metric, options = parse_metric(self._score_metric())
        histogram = relevance_histogram(codes, database, y, database_y, affinity=self.affinity_)
        return metric(histogram, empty="zero", **options)

    def _keep_weights(self, encoder):
        self.weights_ = {name: value.detach().cpu().numpy().copy() for name, value in encoder.state_dict().items()}
        self._architecture = {
            "n_features": encoder.mean.shape[0],
            "nbits": encoder.hash.out_features,
            "backbone": self.backbone,
        }

    def _snapshot(self, encoder, X, targets):
        """Attributes of a hasher fitted up to now, for callbacks that want one."""
        snapshot = type(self)(**self.get_params(deep=False))
        snapshot.__dict__.update({key: value for key, value in self.__dict__.items() if "callback" not in key})
        snapshot.history_, snapshot.n_epochs_ = list(self.history_), len(self.history_)
        snapshot._keep_weights(encoder)
        snapshot._store_database(X, targets)
        return {name: value for name, value in vars(snapshot).items() if name.endswith("_") or name == "_architecture"}

    def _module(self):
        """The encoder in evaluation mode on its device, built from `weights_` once."""
        device = resolve_device(self.device)
        cached = getattr(self, "_cache", None)
        if cached is None or cached[0] is not self.weights_ or cached[1] != device:
            with seeded(0, device):  # the drawn weights are replaced; the global generator is left alone
                encoder = Encoder(**self._architecture)
            encoder.load_state_dict({name: torch.tensor(value) for name, value in self.weights_.items()})
            self._cache = cached = (self.weights_, device, encoder.to(device).eval())
        return cached[2]

    def _project(self, X):
        with self._threads():
            return _activations(self._module(), X)

    def __getstate__(self):
        state = super().__getstate__()
        state = state.copy()
        state.pop("_cache", None)
        return state


@torch.no_grad()
def _activations(encoder, X):
    encoder.eval()
    device = encoder.mean.device
    slices = gen_batches(len(X), ENCODE_ROWS)
    parts = [encoder(torch.tensor(X[rows], dtype=torch.float32, device=device)) for rows in slices]
    return torch.cat(parts).cpu().numpy()
