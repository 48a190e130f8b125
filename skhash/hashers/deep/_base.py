"""DeepHasher: an estimator around the torch engine, for methods that give an objective."""

import math
import warnings
from abc import abstractmethod

import numpy as np
import torch
from sklearn.callback import with_callbacks
from sklearn.utils import check_random_state, gen_batches, get_tags
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import nn
from torch.utils.data import Dataset

from skhash._compat import fit_context
from skhash.affinity import SharedLabelsAffinity
from skhash.base import ENCODE_BATCH_SIZE, BaseHasher, lack_of_pairs
from skhash.codes import binarize, pack
from skhash.engine import (
    ArraySubset,
    Checkpoint,
    DatasetArray,
    Encoder,
    Schedule,
    Trainer,
    batch_tensor,
    crop_and_flip,
    evenly_spaced,
    fingerprint,
    full_precision,
    one_thread,
    resolve_device,
    seeded,
)
from skhash.engine.backbones import build_backbone, output_width
from skhash.engine.smoothing import DIRECTIONS, are_tags
from skhash.hashers.deep._parameters import CONSTRAINTS, check_smoothing, document
from skhash.hashers.deep._stream import FIXED, check_same_model, go_on, stream_state
from skhash.metrics import Ranking, evaluate_ranking

# Input noise by default: the ratio p / (1 - p) of dropout grows with the features a row, as a penalty should.
# Chosen by validation on training rows of MNIST and USPS, for 1,000 to 25,000 rows.
NOISE, MAX_NOISE = 4.0, 3.0
SMOOTHING = 0.4  # of tags: experiments/smoothing.py
EPOCHS = (30, 125)  # fewest and most epochs that a budget of steps is turned into


class DeepHasher(BaseHasher):
    """A hasher whose activations are a torch encoder's.

    A subclass lists the parameters in its `__init__`, implements `_objective`, and gives
    what stands for the parameters that are left None: `_settings` names them, with `n_steps`
    for `n_epochs`, `_recipes` has the values for "linear" and "deep", and `_sgd_rates` the
    step sizes of SGD.

    Examples
    --------
    >>> from skhash import HashNetHasher, NSHHasher, TALRHasher
    >>> from skhash.hashers.deep._base import DeepHasher
    >>> all(issubclass(cls, DeepHasher) for cls in (TALRHasher, HashNetHasher, NSHHasher))
    True
    """

    _parameter_constraints = BaseHasher._parameter_constraints | CONSTRAINTS

    _dtypes = [np.float32]  # larger values would overflow in the encoder: validation refuses them
    _settings: tuple
    _recipes: dict
    _sgd_rates: dict
    settings_: dict
    history_: list
    _stream: dict  # what partial_fit goes on from
    _batch_norm = False  # whether each bit is normalised over the batch
    _epochs = EPOCHS
    _of_objective: tuple = ()  # parameters that decide which weights the objective has
    _kept = ("_architecture", "_fixed")

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        document(cls)

    @with_callbacks
    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y=None, resume=False):
        """Learn the hash functions from the rows of `X`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or (n_samples, ...), or torch Dataset
            Training rows, finite real values. Images have the channels first; bytes
            become values in [0, 1]. A Dataset yields rows, or pairs (row, target).
        y : array-like of shape (n_samples,) or (n_samples, ...), default=None
            Targets that the affinity compares: class labels, a 0/1 matrix of labels,
            or any rows that a given affinity takes. Supervised hashers require it
            unless their affinity does not; the others keep it for :meth:`score` only.
            None takes the targets of a Dataset, where learning needs them.
        resume : bool, default=False
            Go on from the checkpoint of these parameters and rows, if there is one, to
            the codes of a run that was never stopped.

        Returns
        -------
        self : object
            The fitted hasher.

        Raises
        ------
        ValueError
            If `X` or `y` cannot be learned from; what was fitted before is kept.
        FloatingPointError
            If the loss is no longer finite.
        KeyboardInterrupt
            If interrupted; a hasher that was not fitted before then holds its best epoch.

        Examples
        --------
        >>> import tempfile
        >>> from sklearn.datasets import load_digits
        >>> from skhash import TALRHasher
        >>> X, y = load_digits(return_X_y=True)
        >>> hasher = TALRHasher(16, n_epochs=2, checkpoint=tempfile.mkdtemp(), random_state=0).fit(X[:500], y[:500])
        >>> len(hasher.fit(X[:500], y[:500], resume=True).history_)  # both epochs are in the checkpoint
        2
        """
        if resume and self.checkpoint is None:
            raise ValueError("resume=True with checkpoint=None; a folder that holds the checkpoint is wanted.")
        return self._run_fit(X, self._targets_to_learn(X, y), resume=resume)

    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X, y=None):
        """Pass once over more rows of a stream, starting from the weights as they are.

        The first call settles the centre and scale, the directions of smoothing, the affinity
        and the parameters left None from its rows, which had better be like the later ones.
        The step size is constant, and may be set anew between the calls; a continuation stays
        in its first stage, and the state of the optimizer is kept from call to call. Callbacks,
        checkpoints and early stopping belong to :meth:`fit`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or (n_samples, ...), or torch Dataset
            The next rows, two at least.
        y : array-like of shape (n_samples, ...), default=None
            Their targets. None takes those of a Dataset, where learning needs them.

        Returns
        -------
        self : object
            The hasher; :meth:`score` ranks these last rows.

        Raises
        ------
        ValueError
            If the rows cannot be learned from, or are not like the first ones; if a parameter is no
            longer what it was that decides which weights there are, what is relevant (`affinity`), or
            what the optimizer keeps.

        Warns
        -----
        UserWarning
            If a supervised hasher is given rows of one class, or of one row a class: other than in
            :meth:`fit`, they may be a part of a stream, but they teach little or nothing.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from skhash import TALRHasher
        >>> X, y = load_digits(return_X_y=True)
        >>> hasher = TALRHasher(16, random_state=0)
        >>> for start in range(0, 1500, 500):
        ...     hasher = hasher.partial_fit(X[start : start + 500], y[start : start + 500])
        >>> [entry["epoch"] for entry in hasher.history_]
        [1, 2, 3]
        """
        with self._kept_on_failure():
            first = not hasattr(self, "weights_")
            if not first:
                check_same_model(self)
            X, targets = self._validate_training_data(X, self._targets_to_learn(X, y), first)
            if self._supervised and (lack := lack_of_pairs(self.affinity_, targets)):
                warnings.warn(
                    f"{lack[0]}, which teaches little or nothing; a stream of mixed rows is wanted.",
                    UserWarning,
                    stacklevel=3,
                )
            if first:
                self._prepare(X)
                self.history_ = []
            self.settings_ = self._given(self.settings_)
            device = resolve_device(self.device)
            rng, seed = self._draw_seed()
            with seeded(seed, device, self.deterministic), self._threads():
                encoder = self._new_encoder(X, rng) if first else self._rebuild(device, **self._training_options())
                schedule = self._schedule(n_epochs=1, n_stages=1, lr_schedule="constant")
                trainer = self._trainer(encoder, X, targets, schedule, np.random.default_rng(seed), device)
                if hasattr(self, "_stream"):
                    go_on(self, trainer)
                self.history_ = [*self.history_, {"epoch": len(self.history_) + 1, "loss": trainer.run_epoch()}]
                self._stream = stream_state(self, trainer)
            self._keep_weights(encoder.state_dict())
            self.n_epochs_ = len(self.history_)
            self._store_database(X, targets)
        return self

    def _targets_to_learn(self, X, y):
        """`y`, or the targets of a Dataset, where learning needs them."""
        wanted = y is None and isinstance(X, Dataset) and get_tags(self).target_tags.required
        return DatasetArray(X).targets() if wanted else y

    def score(self, X, y=None):
        """Rank the rows of fit for each row of `X` as a query, and average the metric.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or (n_samples, ...), or torch Dataset
            Queries.
        y : array-like of shape (n_samples, ...), default=None
            Targets of the queries; not needed where the affinity compares rows of X, nor
            for a Dataset that has them.

        Returns
        -------
        float
            Mean tie-aware AP, or NDCG for a hasher trained on NDCG, in [0, 1].

        Raises
        ------
        sklearn.exceptions.NotFittedError
            Before `fit`.
        ValueError
            Without the targets that the affinity compares, or with ``store_database=False``.

        Examples
        --------
        >>> from sklearn.datasets import load_digits
        >>> from skhash import TALRHasher
        >>> X, y = load_digits(return_X_y=True)
        >>> TALRHasher(16, n_epochs=5, random_state=0).fit(X[:1000], y[:1000]).score(X[1000:], y[1000:]) > 0.6
        True
        """
        check_is_fitted(self)
        if y is None and isinstance(X, Dataset):
            rows = DatasetArray(X)
            y = rows.targets() if getattr(self.affinity_, "requires_y", True) else rows[:]
        return super().score(X, y)

    @abstractmethod
    def _objective(self):
        """The Objective to minimise; `affinity_` is fitted by now."""

    def _recipe(self):
        """Settings for the parameters that are left None."""
        kind = self._kind()
        recipe = dict(zip(self._settings, self._recipes[kind], strict=True))
        sgd = {"learning_rate": self._sgd_rates[kind], "weight_decay": 5e-4}
        return recipe | sgd if self.optimizer == "sgd" else recipe

    def _kind(self):
        """Which recipe is meant."""
        return "linear" if self.backbone is None else "deep"

    def _feature_width(self):
        """Number of outputs of the backbone, which other heads than the hash layer may take, too."""
        return output_width(build_backbone(self.backbone, self.input_shape_), self.input_shape_)

    def _augmentation(self):
        """What the training loop does to each batch, None for nothing."""
        return crop_and_flip(self.input_shape_) if self.augment == "auto" else self.augment

    def _initialize(self, encoder, X, rng):
        """Set the first weights of the encoder, where a method has a better start."""

    def _check_options(self):
        """Raise ValueError for options that do not go together."""

    def _n_stages(self):
        """Stages of a method that learns by continuation."""
        return 1

    def _measure(self, objective, activations, targets):
        """What to keep in `history_` at the end of a stage, from all activations of some rows."""
        return {}

    def _check_input(self, X, **options):
        if isinstance(X, Dataset):
            X = DatasetArray(X)
        ndim = np.ndim(X) if isinstance(X, list) else getattr(X, "ndim", 2)
        if not isinstance(X, DatasetArray) and ndim <= 2:
            X = super()._check_input(X, **options)
        else:
            whole = isinstance(X, DatasetArray)
            options |= {"skip_check_array": whole, "dtype": [np.float32, np.uint8], "allow_nd": True}
            X = validate_data(self, X, ensure_2d=False, **options)
            if whole and len(X) < options.get("ensure_min_samples", 1):
                raise ValueError(f"X has {len(X)} rows; at least {options.get('ensure_min_samples', 1)} are wanted.")
        if options.get("reset", True):
            self.input_shape_ = tuple(X.shape[1:])
        elif tuple(X.shape[1:]) != self.input_shape_:
            raise ValueError(f"X has rows of shape {tuple(X.shape[1:])}; {self.input_shape_} is wanted, as in fit.")
        return X

    def _settle(self, X):
        """Fill the parameters that are left None, from the recipe and the size of the data."""
        recipe, n_rows = self._recipe(), len(X)
        batch_size = recipe["batch_size"] if self.batch_size is None else self.batch_size
        noise = min(NOISE * math.prod(X.shape[1:]) / n_rows, MAX_NOISE)
        n_epochs = math.ceil(recipe.pop("n_steps") / math.ceil(n_rows / batch_size))
        recipe |= {"n_epochs": int(np.clip(n_epochs, *self._epochs)), "input_dropout": noise / (1 + noise)}
        return self._given(recipe | {"smoothing": SMOOTHING if self._learns_labels_of_tags(X) else 0.0})

    def _learns_labels_of_tags(self, X):
        linear = self.backbone is None and X.ndim == 2
        by_labels = self._supervised and isinstance(self.affinity_, SharedLabelsAffinity)
        return self.smoothing is None and linear and by_labels and are_tags(X[evenly_spaced(len(X), 1000)])

    def _given(self, settings):
        """Settings with the parameters that are not None in place of theirs."""
        given = {name: getattr(self, name) for name in settings}
        return {name: settings[name] if value is None else value for name, value in given.items()}

    def _prepare(self, X):
        self._check_options()
        check_smoothing(self)
        self._fixed = {name: getattr(self, name) for name in FIXED}
        self.settings_ = self._settle(X)
        return self.settings_["n_epochs"]

    def _schedule(self, **changes):
        names = Schedule.__dataclass_fields__
        given: dict = {name: self.settings_.get(name, getattr(self, name, None)) for name in names}
        return Schedule(**(given | {"n_stages": self._n_stages()} | changes))

    def _fit(self, X, targets, resume=False):
        if self.early_stopping and targets is None:
            raise ValueError("early_stopping=True with y=None: the held-out rows are ranked by their targets, pass y.")
        device, was_fitted = resolve_device(self.device), hasattr(self, "weights_")
        checkpoint = None
        if self.checkpoint is not None:
            checkpoint = Checkpoint(self.checkpoint, fingerprint(self._trained_params(), X, targets))
        rng, seed = self._draw_seed()
        order = np.random.default_rng(seed)
        learned, held_out = self._split(len(X), order)
        with seeded(seed, device, self.deterministic):
            rows = X if held_out is None else ArraySubset(X, learned)
            row_targets = targets if held_out is None or targets is None else targets[learned]
            encoder = self._new_encoder(rows, rng)
            trainer = self._trainer(encoder, rows, row_targets, self._schedule(), order, device)
            self.history_, self._best = [], (-np.inf, 0)
            self.__dict__.pop("_stream", None)
            state = checkpoint.read() if checkpoint is not None and resume else None
            if state is not None:
                trainer.load_state_dict(state["trainer"])
                self.history_, self._best = state["history"], tuple(state["best"])
                self._keep_weights(state["weights"])
            validation = None
            if held_out is not None:
                validation = ArraySubset(X, held_out), targets[held_out], rows, row_targets
            try:
                self._follow(trainer, X, targets, validation, checkpoint)
            except KeyboardInterrupt as interrupt:
                # an earlier fit is worth more than a part of this one, unless this one goes on from there
                if not self.history_ or (was_fitted and not resume):
                    raise
                return interrupt
            finally:
                del self._best
        return None

    def _trained_params(self):
        """Parameters that the weights depend on."""
        free = {"checkpoint", "device", "store_database", "deterministic"}
        return {name: value for name, value in self.get_params(deep=False).items() if name not in free}

    def _draw_seed(self):
        """Draw from `random_state` what decides a training: the generator of the first weights, and a seed."""
        rng = check_random_state(self.random_state)
        return rng, int(rng.randint(np.iinfo(np.int32).max))

    def _trainer(self, encoder, X, targets, schedule, order, device):
        return Trainer(encoder, self._objective(), X, targets, schedule, order, device, self._augmentation())

    def _training_options(self):
        """What matters to an encoder in training only."""
        options = {name: getattr(self, name) for name in ("hidden_dropout", "mixed_precision")}
        return options | {"input_dropout": self.settings_["input_dropout"]}

    def _new_encoder(self, X, rng):
        smoothing = self.settings_["smoothing"]
        n_directions = min(DIRECTIONS, min(X.shape) // 2) if smoothing else 0
        options = self._training_options() | {"batch_norm": self._batch_norm, "n_directions": n_directions}
        encoder = Encoder(X.shape[1:], self.nbits, self.backbone, **options)
        encoder.set_statistics(X)
        if n_directions:
            encoder.learn_smoothing(X, smoothing, rng)
        self._initialize(encoder, X, rng)
        return encoder

    def _threads(self):
        """Limit torch as well; a given backbone is free unless told."""
        return one_thread(self.deterministic or not isinstance(self.backbone, nn.Module))

    def _follow(self, trainer, X, targets, validation, checkpoint):
        """Go through the epochs: history, callbacks, early stopping, checkpoints."""
        while trainer.n_epochs_done < trainer.schedule.n_epochs and not self._exhausted(validation):
            context = self._callback_fit_ctx.subcontext(task_name="epoch")
            context.call_on_fit_task_begin(estimator=self, X=X, y=targets)
            entry = {"epoch": trainer.n_epochs_done + 1, "loss": trainer.run_epoch()}
            if trainer.stage_ended:
                entry |= self._measure_stage(trainer)
            if validation is None or self._improves(trainer, entry, validation):
                self._keep_weights(trainer.encoder.state_dict())
            self.history_.append(entry)
            self.n_epochs_ = len(self.history_)
            if checkpoint is not None:
                weights = {name: torch.from_numpy(value) for name, value in self.weights_.items()}
                state = {"trainer": trainer.state_dict(), "history": self.history_, "best": self._best}
                checkpoint.write(state | {"weights": weights})
            if context.call_on_fit_task_end(
                estimator=self,
                X=X,
                y=targets,
                reconstruction_attributes=lambda: self._snapshot(X, targets, trainer.encoder.state_dict()),
            ):
                break
        self.n_epochs_ = len(self.history_)

    def _improves(self, trainer, entry, validation):
        """Validate, and say whether this epoch is the best so far."""
        entry["validation"] = self._validate(trainer.encoder, *validation)
        if entry["validation"] <= self._best[0]:
            return False
        self._best = (entry["validation"], entry["epoch"])
        return True

    def _exhausted(self, validation):
        return validation is not None and len(self.history_) - self._best[1] >= self.n_iter_no_change

    def _measure_stage(self, trainer):
        rows = evenly_spaced(len(trainer.X), ENCODE_BATCH_SIZE)
        activations = torch.from_numpy(_activations(trainer.encoder, trainer.X[rows]))
        targets = None if trainer.targets is None else trainer.targets[rows]
        return self._measure(trainer.objective, activations.to(trainer.device), targets)

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
        """Exact metric of the held-out samples, ranked against the samples that are learned from."""
        codes, database = (pack(binarize(_activations(encoder, samples))) for samples in (X, database_X))
        affinity = "auto" if self.affinity_ is None else self.affinity_
        ranking = Ranking(codes, database, self._nbits, y, database_y, affinity)
        metric = self._score_metric()
        return evaluate_ranking(ranking, [metric], empty="zero")[metric]

    def _keep_weights(self, state):
        self.weights_ = {name: value.detach().cpu().numpy().copy() for name, value in state.items()}
        self._architecture = {"shape": self.input_shape_, "nbits": self._nbits, "backbone": self.backbone}
        n_directions = len(state.get("backbone.gains", ())) if self.backbone is None else 0
        self._architecture |= {"batch_norm": self._batch_norm, "n_directions": n_directions}

    def _module(self):
        """The encoder in evaluation mode on its device, built from `weights_` once."""
        device = resolve_device(self.device)
        cached = getattr(self, "_cache", None)
        if cached is None or cached[0] is not self.weights_ or cached[1] != device:
            self._cache = cached = (self.weights_, device, self._rebuild(torch.device("cpu")).fold().to(device).eval())
        return cached[2]

    def _rebuild(self, device, **options):
        """An encoder with the weights of `weights_`."""
        with seeded(0, device):  # the drawn weights are replaced; the global generator is left alone
            encoder = Encoder(**(self._architecture | options))
        encoder.load_state_dict({name: torch.tensor(value) for name, value in self.weights_.items()})
        return encoder.to(device)

    def _project(self, X):
        return _activations(self._module(), X)

    def __getstate__(self):
        state = super().__getstate__().copy()
        state.pop("_cache", None)
        return state


@torch.no_grad()
def _activations(encoder, X):
    encoder.eval()
    device, slices = encoder.mean.device, gen_batches(len(X), ENCODE_BATCH_SIZE)
    with full_precision(device):
        parts = [encoder(batch_tensor(X, rows, device)) for rows in slices]
    return torch.cat(parts).cpu().numpy()
