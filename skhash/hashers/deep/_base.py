"""DeepHasher: the base class of methods that train a torch encoder on an objective."""

import math
import sys
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, Unpack

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from skhash._compat import fit_context, with_callbacks
from skhash._files import as_tensors
from skhash._libraries import import_torch
from skhash._threads import is_forked, one_thread
from skhash._validation import (
    OPTIONAL,
    Array,
    as_count,
    check_channels,
    check_kind,
    check_resume,
    check_same_shape,
    evenly_spaced,
    is_cpu,
    is_dataset,
    is_module,
    resolve_device,
)
from skhash.affinity import Relevance, SharedLabelsAffinity
from skhash.base import BaseHasher, InterruptedFit
from skhash.functions import ArrayFunction, HashFunction
from skhash.hashers.deep._parameters import (
    CONSTRAINTS,
    FINE_TUNING,
    FINE_TUNING_EPOCHS,
    OF_MODULE,
    SHARED,
    SharedParameters,
    document,
    list_parameters,
)

if TYPE_CHECKING:
    import torch

    from skhash.engine import Encoder, Objective, Trainer
    from skhash.hashers.deep._early_stopping import EarlyStopping

SMOOTHING = 0.4  # of tags, chosen by experiments/smoothing.py
#: backbones that use a dropout; other networks have their own
_USED_BY = {"input_dropout": (None, "mlp"), "hidden_dropout": ("mlp", "conv")}
#: parameters that decide the weights of the encoder and what is relevant, and stay the same in partial_fit
FIXED = ("nbits", "backbone", "affinity", "smoothing")


def _default_noise(ratio: float, is_linear: bool) -> float:
    """Ratio p / (1 - p) of the default dropout of features, from the number of features per sample.

    Chosen on training samples, by experiments/dropout.py for linear hashers and experiments/defaults.py for the others.
    """
    return min(3 * ratio, 0.6) if is_linear else min(4 * ratio, max(1, ratio), 3)


class DeepHasher(BaseHasher):
    """A hasher whose activations are the outputs of a torch encoder.

    A subclass lists its own parameters in `__init__`, gives the shared ones to that of this class, and
    implements `_objective`, which returns an :class:`~skhash.engine.Objective`. It sets `_supervised` to True if it
    learns from `y`. For other defaults of shared parameters it lists these in its `__init__`, too.

    Parameters
    ----------
    nbits : int, default=32
        Number of bits of a code.
    affinity : "auto" or callable, default="auto"
        Which samples are similar.
    augment : None, "auto" or callable, default=None
        Maps each training batch (a float32 tensor) to another version of it.
    {shared parameters}

    Notes
    -----
    {defaults}

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from skhash.engine import Objective
    >>> from skhash.hashers.deep import DeepHasher, pairwise_loss
    >>> class Pairs(Objective):
    ...     def forward(self, encoder, X, relevance, indices):
    ...         levels, _ = relevance.levels()
    ...         return pairwise_loss(encoder(X), levels > 0)
    >>> class PairsHasher(DeepHasher):
    ...     _supervised = True
    ...
    ...     def __init__(self, nbits=32, *, learning_rate=0.01, **shared):
    ...         super().__init__(nbits, learning_rate=learning_rate, **shared)
    ...
    ...     def _objective(self):
    ...         return Pairs()
    >>> X, y = load_digits(return_X_y=True)
    >>> hasher = PairsHasher(16, n_epochs=20, random_state=0).fit(X[:1000], y[:1000])
    >>> hasher.score(X[1000:], y[1000:]) > 0.6
    True
    """

    _parameter_constraints = BaseHasher._parameter_constraints | CONSTRAINTS

    _shared_defaults: ClassVar[dict[str, Any]] = {}  # defaults of shared parameters; needs an `__init__`
    #: parameters that may be None, with `n_steps` for `n_epochs`; their defaults; and the learning rates of SGD. The
    #: values here are those of most methods.
    _settings: tuple[str, ...] = ("n_steps", "batch_size", "learning_rate", "weight_decay")
    _recipes: dict[str, tuple[Any, ...]] = {"linear": (2500, 256, 0.02, 0.5), "deep": (1500, 256, 0.003, 0.1)}
    _sgd_rates: dict[str, float] = {"linear": 0.1, "deep": 0.1}
    _of_module: ClassVar[dict[str, Any]] = OF_MODULE  # what a network of the user has in place of values of "deep"
    _objective_params: tuple[str, ...] = ()  # parameters that decide which weights the objective has
    _n_epochs_range = (30, 125)  # fewest and most epochs that `n_steps` can give
    _hidden_dropout = 0.3  # of "mlp" and "conv"
    _network_scale = 0.3  # `backbone_lr_scale` of a pretrained network
    _batch_norm: tuple[str, ...] = ()  # kinds in `_recipes` whose outputs are normalized over the batch
    _fitted_private: tuple[str, ...] = ("_fixed", "_stream")

    settings_: dict[str, Any]
    weights_: dict[str, npt.NDArray[Any]]
    history_: list[dict[str, Any]]
    n_epochs_: int
    input_shape_: tuple[int, ...]
    _fixed: dict[str, Any]
    _stream: Annotated[dict[str, Any], OPTIONAL]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        if "__init__" in vars(cls):
            list_parameters(cls)
        super().__init_subclass__(**kwargs)
        document(cls)

    @classmethod
    def _needed_parameters(cls) -> list[str]:
        settings = ["n_epochs" if name == "n_steps" else name for name in cls._settings]
        return super()._needed_parameters() + settings

    def __init__(self, nbits: int = 32, **shared: Unpack[SharedParameters]) -> None:
        self.nbits = nbits
        given: dict[str, Any] = dict(shared)
        for name, default in (SHARED | self._shared_defaults).items():
            setattr(self, name, given.pop(name, default))
        if given:
            name = next(iter(given))
            raise TypeError(f"{type(self).__name__}.__init__() got an unexpected keyword argument {name!r}")

    @with_callbacks
    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, resume: bool = False) -> Self:
        """Learn the hash functions.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or (n_samples, ...), or torch Dataset
            Training samples, finite real values. Images have the channels first; bytes
            become values in [0, 1]. A Dataset has samples, or (sample, target) pairs.
        y : array-like of shape (n_samples,) or (n_samples, ...), default=None
            Targets that the affinity compares: class labels, a 0/1 matrix of labels, or
            whatever a given affinity takes. Supervised hashers require it unless their
            affinity does not; the others store it for :meth:`score` only. None takes the
            targets of a Dataset, if learning needs them.
        resume : bool, default=False
            Continue from the checkpoint of this training, if there is one. The codes are those
            of a training that was never stopped. See :ref:`resume` for what is compared.

        Returns
        -------
        self : object
            The fitted hasher.

        Raises
        ------
        ValueError
            If `X` or `y` is invalid. The previous fit is kept.
        skhash.exceptions.InvalidFileError
            If the checkpoint is damaged or that of another training.
        TypeError
            If a parameter cannot be identified, which `checkpoint` requires.
        FloatingPointError
            If the loss is no longer finite.
        KeyboardInterrupt
            If interrupted. A hasher that was not fitted before keeps its last or best epoch.

        Examples
        --------
        >>> import tempfile
        >>> from sklearn.datasets import load_digits
        >>> from skhash import TALRHasher
        >>> X, y = load_digits(return_X_y=True)
        >>> folder = tempfile.mkdtemp()
        >>> hasher = TALRHasher(16, n_epochs=2, checkpoint=folder, random_state=0)
        >>> hasher = hasher.fit(X[:500], y[:500])
        >>> hasher = hasher.fit(X[:500], y[:500], resume=True)
        >>> len(hasher.history_)  # both epochs are in the checkpoint
        2
        """
        check_resume(resume, self.checkpoint)
        return self._run_fit(X, y, partial(self._learn, resume=resume))

    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Train for one pass over the next samples of a stream.

        The first call sets the mean and the scale, the directions of smoothing, the affinity and
        the parameters that are None, so its samples should be like the later ones. The learning
        rate is constant and may change between calls. A continuation stays in its first stage.
        The state of the optimizer is kept, and so are the weights of the objective, such as a
        classifier. :meth:`fit` keeps only the encoder, so the first call after it starts both
        again. Callbacks, checkpoints and early stopping belong to :meth:`fit`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features) or (n_samples, ...), or torch Dataset
            The next samples; at least two.
        y : array-like of shape (n_samples, ...), default=None
            Their targets. None takes those of a Dataset, if learning needs them.

        Returns
        -------
        self : object
            The hasher. :meth:`score` ranks the samples of this call.

        Raises
        ------
        ValueError
            If `X` or `y` is invalid or does not match the first samples, or if a parameter has
            changed that the learned weights depend on.

        Warns
        -----
        UserWarning
            If a supervised hasher gets samples without relevant or without irrelevant pairs.

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
        import_torch()
        from skhash.engine.runtime import seeded
        from skhash.hashers.deep.checkpoints import (
            capture_state,
            check_same_training,
            check_unchanged,
            draw_seed,
            restore_state,
        )

        with self._restored_on_failure():
            is_first = not hasattr(self, "weights_")
            if not is_first:
                fixed = dict.fromkeys(FIXED) | self._fixed | getattr(self, "_stream", {"fixed": {}})["fixed"]
                check_unchanged({name: getattr(self, name) for name in fixed}, fixed)
            X, targets, relevance = self._validate_fit_data(X, y, reset=is_first)
            if is_first:
                self.history_ = []
                self.affinity_ = None if relevance is None else relevance.affinity
            else:
                self._check_kind_of_targets(targets)
            relevance = relevance if self._supervised else None
            if is_first:
                self._note_relevance(relevance)
            elif relevance is not None:
                self._check_next_relevance(relevance)
            if relevance is not None:
                _warn_without_pairs(relevance)
            self._check_options()
            if is_first:
                self._resolve_defaults(X)
            self.settings_ = self._with_given_values(self.settings_)
            check_same_training(self, X, targets)
            device = resolve_device(self.device)
            rng, seed = draw_seed(self, check_random_state(self.random_state))
            with self._environment(), seeded(seed, device, self.deterministic):
                encoder = self._build_encoder(X, rng) if is_first else self._rebuild_encoder(device)
                order = np.random.default_rng(seed)
                constant = {"n_epochs": 1, "n_stages": 1, "lr_schedule": "constant"}
                trainer = self._build_trainer(encoder, X, relevance, order, device, **constant)
                if hasattr(self, "_stream"):
                    restore_state(trainer, self._stream, self.optimizer)
                self.history_ = [*self.history_, {"epoch": len(self.history_) + 1, "loss": trainer.run_epoch()}]
                fixed = {name: getattr(self, name) for name in ("backbone_lr_scale", *self._objective_params)}
                self._stream = capture_state(trainer, fixed)
                self._store_weights(encoder)
            self.n_epochs_ = len(self.history_)
            self._store_database(X, targets)
        return self

    # --- what a method defines

    @abstractmethod
    def _objective(self) -> "Objective":
        """Objective to minimize. `affinity_` and `settings_` are known."""

    def _kind(self) -> str:
        """Key of the recipe in `_recipes`."""
        return "linear" if self.backbone is None else "deep"

    def _augmentation(self) -> "Callable[[torch.Tensor], torch.Tensor] | None":
        """Function that the training loop applies to each batch; None for no change."""
        from skhash.engine.augment import crop_and_flip

        return crop_and_flip(self.input_shape_) if self.augment == "auto" else self.augment

    def _initialize(self, encoder: "Encoder", X: Any, rng: np.random.RandomState) -> None:
        """Set better initial weights of the encoder, and draw other initial values; called before `_objective`."""

    def _n_stages(self) -> int:
        """Number of stages of a method that learns by continuation."""
        return 1

    def _measure_stage(self, trainer: "Trainer") -> dict[str, Any]:
        """What `history_` stores at the end of a stage."""
        return {}

    # --- validate

    def _own_targets(self, X: Any) -> Any:
        return X.targets() if hasattr(X, "targets") else super()._own_targets(X)

    def _targets_of(self, dataset: Any, are_samples: bool) -> Any:
        """What an affinity compares of a Dataset: its targets, or the samples themselves."""
        from skhash.engine.data import DatasetArray

        return DatasetArray(dataset)[:] if are_samples else DatasetArray(dataset).targets()

    def _check_input(self, X: Any, **options: Any) -> Any:
        check_kind(X, self, takes_datasets=True)
        from_dataset = is_dataset(X)
        if from_dataset:
            from skhash.engine.data import DatasetArray

            X = DatasetArray(X)
        ndim = np.ndim(X) if isinstance(X, list) else getattr(X, "ndim", 2)
        is_small = getattr(getattr(X, "dtype", None), "itemsize", 8) < 4  # float32 holds these values
        options["dtype"] = [np.float32, np.float64] if is_small else [np.float64, np.float32]
        if not from_dataset and ndim <= 2:
            X = validate_data(self, X, **options)
        else:
            n_min = options.get("ensure_min_samples", 1)
            options["dtype"].append(np.uint8)
            options |= {"skip_check_array": from_dataset, "allow_nd": True}
            X = validate_data(self, X, ensure_2d=False, **options)
            if from_dataset and len(X) < n_min:
                raise ValueError(f"`X` must have at least {n_min} samples. Got a Dataset of {len(X)} instead.")
            if from_dataset and X.ndim == 1:
                raise ValueError("`X` must have samples that are arrays. Got a Dataset of numbers instead.")
        shape = tuple(X.shape[1:])
        if not options.get("reset", True):
            check_same_shape(shape, self.input_shape_, from_dataset)
            return X
        if from_dataset:
            X.check()
        self.__dict__.pop("n_features_in_", None)  # of an earlier fit
        if len(shape) == 1:
            self.n_features_in_ = shape[0]
        else:
            check_channels(shape, self.backbone, from_dataset)
        self.input_shape_ = shape
        return X

    def _check_options(self) -> None:
        for name, backbones in _USED_BY.items():
            if getattr(self, name) and self.backbone not in backbones:
                is_given = is_module(self.backbone)
                network = f"a {type(self.backbone).__name__}" if is_given else f"backbone={self.backbone!r}"
                remedy = " Put a dropout layer into the module." if is_given else ""
                raise ValueError(
                    f"`{name}` must be None or 0 with {network}, which does not use it. Got {getattr(self, name)} "
                    f"instead.{remedy}"
                )
        if self.smoothing and (self.backbone is not None or len(self.input_shape_) > 1):
            raise ValueError(
                "`smoothing` must be None or 0 with a backbone or with samples that are not vectors. "
                f"Got {self.smoothing} with backbone={self.backbone!r} and samples of shape {self.input_shape_}."
            )

    def _check_kind_of_targets(self, targets: Any) -> None:
        """Raise ValueError for targets that the affinity cannot compare with those of the last call."""
        before, one = None if self.database_ is None else self.database_.y, slice(0, 1)
        if self.affinity_ is not None and before is not None and targets is not None:
            self.affinity_(before[one], targets[one])

    def _check_next_relevance(self, relevance: Relevance) -> None:
        """Raise ValueError for relevance that does not match that of the first call."""

    # --- resolve defaults

    def _resolve_defaults(self, X: Any) -> None:
        from skhash.engine import count_batches
        from skhash.engine.layers import are_tags
        from skhash.engine.networks import is_pretrained

        kind, n_samples, pretrained = self._kind(), len(X), is_pretrained(self.backbone)
        recipe: dict[str, Any] = dict(zip(self._settings, self._recipes[kind], strict=True))
        recipe["backbone_lr_scale"] = self._network_scale if pretrained else 1.0
        epochs_range = self._n_epochs_range
        scale = recipe["backbone_lr_scale"] if self.backbone_lr_scale is None else self.backbone_lr_scale
        if pretrained and scale != 0:
            recipe |= FINE_TUNING
            epochs_range = FINE_TUNING_EPOCHS
        elif is_module(self.backbone) and not pretrained:
            recipe |= self._of_module
        if self.optimizer == "sgd":
            recipe |= {"learning_rate": self._sgd_rates[kind], "weight_decay": 5e-4}
        batch_size = recipe["batch_size"] if self.batch_size is None else self.batch_size
        n_epochs = math.ceil(recipe.pop("n_steps") / count_batches(n_samples, batch_size))
        recipe["n_epochs"] = int(np.clip(n_epochs, *epochs_range))
        noise = _default_noise(math.prod(X.shape[1:]) / n_samples, is_linear=self.backbone is None)
        dropout = {"input_dropout": noise / (1 + noise), "hidden_dropout": self._hidden_dropout}
        recipe |= {name: p for name, p in dropout.items() if self.backbone in _USED_BY[name]}
        if self.backbone is None and X.ndim == 2:
            by_labels = self._supervised and isinstance(self.affinity_, SharedLabelsAffinity)
            smooths = by_labels and self.smoothing is None and are_tags(X[evenly_spaced(n_samples, 1000)])
            recipe["smoothing"] = SMOOTHING if smooths else 0.0
        self.settings_ = self._with_given_values(recipe)
        self._fixed = {name: getattr(self, name) for name in FIXED}

    def _with_given_values(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Settings, with the values of parameters that are not None; Python's ints, whose products do not overflow."""
        given = {name: settings[name] if (value := getattr(self, name)) is None else value for name in settings}
        return {name: int(value) if isinstance(value, np.integer) else value for name, value in given.items()}

    def _n_tasks(self) -> int:
        return int(self.settings_["n_epochs"])

    # --- build

    def _build_encoder(self, X: Any, rng: np.random.RandomState) -> "Encoder":
        from skhash.engine import Encoder
        from skhash.engine.layers import N_MAX_DIRECTIONS

        smoothing = self.settings_.get("smoothing", 0.0)
        n_directions = min(N_MAX_DIRECTIONS, min(X.shape) // 2) if smoothing else 0
        encoder = Encoder(
            X.shape[1:],
            self.nbits,
            self.backbone,
            **self._dropouts(),
            batch_norm=self._kind() in self._batch_norm,
            mixed_precision=self.mixed_precision,
            n_directions=n_directions,
        )
        encoder.set_statistics(X)
        if n_directions:
            encoder.learn_smoothing(X, smoothing, rng)
        self._initialize(encoder, X, rng)
        return encoder

    def _dropouts(self) -> dict[str, Any]:
        """Probabilities of the dropouts that the backbone uses."""
        return {name: self.settings_[name] for name in _USED_BY if name in self.settings_}

    def _rebuild_encoder(self, device: "torch.device") -> "Encoder":
        """Encoder with the weights that are kept, to be trained further."""
        from skhash.engine import Encoder
        from skhash.engine.networks import without_weights
        from skhash.engine.runtime import seeded

        options: dict[str, Any] = {
            "backbone": without_weights(self._fixed["backbone"]),
            "batch_norm": "norm.running_mean" in self.weights_,
            "n_directions": len(self.weights_.get("backbone.gains", ())) if self._fixed["backbone"] is None else 0,
            "has_offset": "offset" in self.weights_,
            "pretrained": "feature_mean" in self.weights_,
            "mixed_precision": self.mixed_precision,
        } | self._dropouts()
        with seeded(0, device):  # restores the global generators; the initial weights are replaced
            encoder = Encoder(self.input_shape_, len(self.weights_["hash.weight"]), **options)
        encoder.load_state_dict(as_tensors(self.weights_))
        return encoder.to(device)

    def _build_trainer(
        self,
        encoder: "Encoder",
        X: Any,
        relevance: Relevance | None,
        order: np.random.Generator,
        device: "torch.device",
        **changes: Any,
    ) -> "Trainer":
        from skhash.engine import Schedule, Trainer

        settings: dict[str, Any] = {
            "n_epochs": self.settings_["n_epochs"],
            "batch_size": self.settings_["batch_size"],
            "learning_rate": self.settings_["learning_rate"],
            "backbone_lr_scale": self.settings_["backbone_lr_scale"],
            "lr_schedule": self.lr_schedule,
            "optimizer": self.optimizer,
            "weight_decay": self.settings_["weight_decay"],
            "n_stages": self._n_stages(),
        }
        schedule = Schedule(**(settings | changes))
        return Trainer(encoder, self._objective(), X, relevance, schedule, order, device, self._augmentation())

    def _feature_width(self) -> int:
        """Number of outputs of the backbone."""
        from skhash.engine.backbones import build_backbone, output_width

        return output_width(build_backbone(self.backbone, self.input_shape_), self.input_shape_)

    # --- train

    def _learn(
        self, X: Any, relevance: Relevance | None, rng: np.random.RandomState, targets: Any = None, resume: bool = False
    ) -> HashFunction:
        """Function of an encoder that is trained epoch by epoch, with callbacks, early stopping and checkpoints."""
        from skhash.engine.runtime import gather, seeded
        from skhash.hashers.deep.checkpoints import TrainingFile, check_same_training, draw_seed

        check_same_training(self, X, targets)
        was_fitted = hasattr(self, "weights_") and not resume
        device = resolve_device(self.device)
        file = TrainingFile(self, X, targets, resume)
        rng, seed = draw_seed(self, rng, file)
        order = np.random.default_rng(seed)
        learned, early_stopping, interrupt = X, None, None
        if relevance is not None:
            relevance.keep_levels(self.settings_["n_epochs"] * len(X) * self.settings_["batch_size"])
        if self.early_stopping:
            early_stopping = self._hold_out(X, targets, relevance, order)
            learned, relevance = early_stopping.train, early_stopping.train_relevance
        with seeded(seed, device, self.deterministic):
            encoder = self._build_encoder(learned, rng)
            trainer = self._build_trainer(encoder, learned, relevance, order, device)
            self.history_ = []
            self.__dict__.pop("_stream", None)
            file.restore(trainer, early_stopping)
            self.n_epochs_ = len(self.history_)
            try:
                while trainer.n_epochs_done < trainer.schedule.n_epochs:
                    if early_stopping is not None and early_stopping.should_stop(len(self.history_)):
                        break
                    context = self._callback_fit_ctx.subcontext(task_name="epoch")
                    context.call_on_fit_task_begin(estimator=self, X=X, y=targets)
                    entry = {"epoch": trainer.n_epochs_done + 1, "loss": trainer.run_epoch()}
                    if trainer.stage_ended:
                        entry |= self._measure_stage(trainer)
                    if early_stopping is None or early_stopping.improves(encoder, entry):
                        self._keep_weights(encoder.state_dict())
                    self.history_.append(entry)
                    self.n_epochs_ = len(self.history_)
                    file.write(trainer, early_stopping)
                    snapshot = partial(self._reconstruction_attributes, X, targets, encoder)
                    stops = context.call_on_fit_task_end(
                        estimator=self, X=X, y=targets, reconstruction_attributes=snapshot
                    )
                    if any(gather(bool(stops))):
                        break
            except KeyboardInterrupt as error:
                if was_fitted or not self.history_:
                    raise
                interrupt = error
            # an epoch that is not the best, or not whole, has left other weights
            encoder.load_state_dict(as_tensors(self.weights_))
            self.function_ = self._function(encoder)
        if interrupt is not None:
            self._store_database(X, targets)
            raise InterruptedFit from interrupt
        return self.function_

    def _hold_out(
        self, X: Any, targets: Any, relevance: Relevance | None, order: np.random.Generator
    ) -> "EarlyStopping":
        from skhash.hashers.deep._early_stopping import EarlyStopping, split_indices

        if targets is None:
            raise ValueError("`y` must be given for early_stopping=True: it ranks held-out samples. Got None instead.")
        learned, held_out = split_indices(len(X), self.validation_fraction, order)
        affinity = "auto" if self.affinity_ is None else self.affinity_
        ranked = Relevance.between(targets, targets, affinity) if relevance is None else relevance
        early_stopping = EarlyStopping(X, ranked, learned, held_out, self._validation_metric(), self.n_iter_no_change)
        if relevance is None:  # it chooses the epoch, and is not learned from
            early_stopping.train_relevance = None
        return early_stopping

    def _validation_metric(self) -> str:
        """Metric of held-out samples by which early stopping chooses the epoch: the one that is trained, or AP."""
        return "ap"

    # --- store

    def _keep_weights(self, weights: "dict[str, torch.Tensor]") -> None:
        """Set `weights_`, from which the function is made when the hasher becomes usable."""
        self.weights_ = {name: value.detach().cpu().numpy().copy() for name, value in weights.items()}

    def _store_weights(self, encoder: "Encoder") -> None:
        self._keep_weights(encoder.state_dict())
        self.function_ = self._function(encoder)

    def _function(self, encoder: "Encoder") -> HashFunction:
        """Function of the trained encoder, whose weights are kept: arrays for vectors, unless a network is given."""
        from skhash.functions.network import NetworkFunction, dense_function

        if self.backbone in (None, "mlp") and len(self.input_shape_) == 1:
            return dense_function(encoder)
        weights = {name: value for name, value in self.weights_.items() if name != "offset"}
        return NetworkFunction(self.input_shape_, weights, self.backbone, offset=encoder.offset_on_cpu())

    def _check_stored(self, lengths: dict[str, int]) -> None:
        if missing := set(FIXED) - self._fixed.keys():
            raise ValueError(f"`_fixed` must have {sorted(missing)[0]!r}.")
        for name, shape in {"hash.weight": "n_trained width", "hash.bias": "n_trained", "mean": "..."}.items():
            Array(shape).check(f"weights_.{name}", self.weights_.get(name), lengths)
        as_count(lengths["n_trained"], "weights_", "one row per bit", least=lengths["nbits"])

    def _cut(self, nbits: int) -> None:
        super()._cut(nbits)
        self._fixed = self._fixed | {"nbits": nbits}
        self.__dict__.pop("_stream", None)
        self.weights_ = {
            name: value[:nbits].copy() if name.startswith(("hash.", "norm.")) and value.ndim else value
            for name, value in self.weights_.items()
        }

    # --- hash

    def _computing(self) -> Any:
        if isinstance(self.function_, ArrayFunction) and is_cpu(self.device):  # without torch
            return self.function_
        from skhash.functions.network import on_device

        return on_device(self.function_, resolve_device(self.device))

    @contextmanager
    def _environment(self) -> Iterator[None]:
        """Limit the threads of torch, but not of a given backbone, and ignore the caller's settings of torch."""
        is_limited = self.deterministic or self.backbone in (None, "mlp", "conv") or is_forked()
        settings: AbstractContextManager[None] = nullcontext()
        has_arrays = isinstance(getattr(self, "function_", None), ArrayFunction)
        if "torch" in sys.modules or not has_arrays or not is_cpu(self.device):  # arrays on the CPU do not need torch
            from skhash.engine.runtime import own_settings

            settings = own_settings()
        with settings, one_thread() if is_limited else nullcontext():
            yield

    def __sklearn_clone__(self) -> Self:
        if not is_module(self.backbone):
            return super().__sklearn_clone__()  # type: ignore[no-any-return]
        from skhash.engine.backbones import clone_with_module

        return clone_with_module(self, "backbone")  # type: ignore[no-any-return]


list_parameters(DeepHasher)
document(DeepHasher)


def _warn_without_pairs(relevance: Relevance) -> None:
    """Warn if all pairs are relevant, or none."""
    try:
        relevance.check_pairs()
    except ValueError as error:
        message = f"{error} Such samples teach little or nothing: mix the samples of a stream."
        warnings.warn(message, UserWarning, stacklevel=4)
