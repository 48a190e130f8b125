"""DeepHasher: the base class of methods that train a torch encoder on an objective."""

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from sklearn.callback import with_callbacks
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data
from torch import nn
from torch.utils.data import Dataset

from skhash._compat import fit_context
from skhash._threads import is_forked, one_thread
from skhash._validation.samples import check_kind
from skhash.affinity import SharedLabelsAffinity
from skhash.base import BaseHasher, InterruptedFit
from skhash.engine import (
    ArraySubset,
    DatasetArray,
    Encoder,
    FewEncoder,
    Objective,
    Schedule,
    Trainer,
    are_tags,
    build_backbone,
    count_batches,
    crop_and_flip,
    evenly_spaced,
    output_width,
    own_settings,
    resolve_device,
    seeded,
)
from skhash.engine.few import N_MAX_PRODUCTS
from skhash.engine.processes import from_first, gather
from skhash.engine.smoothing import N_MAX_DIRECTIONS
from skhash.hashers.deep._activations import compute_activations
from skhash.hashers.deep._checkpoints import TrainingFile
from skhash.hashers.deep._early_stopping import EarlyStopping, split_indices
from skhash.hashers.deep._images import check_channels, check_same_shape
from skhash.hashers.deep._parameters import CONSTRAINTS, document
from skhash.hashers.deep._partial_fit import FIXED, PartialFitMixin
from skhash.hashers.deep._processes import check_same_training
from skhash.hashers.deep._stored import StoredMixin

# Default dropout of features: slope and upper bound of the ratio p / (1 - p), which grows with the features per sample.
# Chosen on training samples: for linear hashers by experiments/dropout.py, with a backbone on MNIST and USPS.
LINEAR_NOISE, NOISE = (3.0, 0.6), (4.0, 3.0)
SMOOTHING = 0.4  # of tags, chosen by experiments/smoothing.py


class DeepHasher(StoredMixin, PartialFitMixin, BaseHasher):
    """A hasher whose activations are the outputs of a torch encoder.

    A subclass lists its parameters in `__init__` and implements `_objective`. `_settings`
    names the parameters that may be None, with `n_steps` for `n_epochs`; `_recipes` has their
    default values for "linear" and "deep", and `_sgd_rates` the learning rates of SGD.

    Examples
    --------
    >>> from skhash import HashNetHasher, NSHHasher, TALRHasher
    >>> from skhash.hashers.deep import DeepHasher
    >>> all(issubclass(cls, DeepHasher) for cls in (TALRHasher, HashNetHasher, NSHHasher))
    True
    """

    _parameter_constraints = BaseHasher._parameter_constraints | CONSTRAINTS

    _settings: tuple[str, ...]
    _recipes: dict[str, tuple[Any, ...]]
    _sgd_rates: dict[str, float]
    _n_epochs_range = (30, 125)  # fewest and most epochs that `n_steps` can give
    _batch_norm = False  # whether each output is normalized over the batch
    _new_encoder: Callable[..., Encoder] = Encoder  # returns an encoder with initial weights
    _fitted_private = (*BaseHasher._fitted_private, "_architecture", "_fixed", "_stream")

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        document(cls)

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
            If `X` or `y` is invalid. An earlier fit is kept then.
        skhash.exceptions.InvalidFileError
            If the checkpoint is damaged or that of another training.
        TypeError
            If a parameter cannot be identified, which `checkpoint` requires.
        FloatingPointError
            If the loss is no longer finite.
        KeyboardInterrupt
            If interrupted. A hasher that was not fitted before has its last or best epoch then.

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
        if resume and self.checkpoint is None:
            raise ValueError("`checkpoint` must be a folder to fit with resume=True. Got None instead.")
        return self._run_fit(X, y, resume=resume)

    # --- what a method defines

    @abstractmethod
    def _objective(self) -> Objective:
        """Objective to minimize. `affinity_` and `settings_` are known."""

    def _kind(self) -> str:
        """Key of the recipe in `_recipes`."""
        return "linear" if self.backbone is None else "deep"

    def _augmentation(self) -> Callable[[torch.Tensor], torch.Tensor] | None:
        """Function that the training loop applies to each batch; None for no change."""
        return crop_and_flip(self.input_shape_) if self.augment == "auto" else self.augment

    def _initialize(self, encoder: Encoder, X: Any, rng: np.random.RandomState) -> None:
        """Set better initial weights of the encoder, and draw other initial values; called before `_objective`."""

    def _n_stages(self) -> int:
        """Number of stages of a method that learns by continuation."""
        return 1

    def _measure_stage(self, trainer: Trainer) -> dict[str, Any]:
        """What `history_` stores at the end of a stage."""
        return {}

    # --- validate

    def _own_targets(self, X: Any) -> Any:
        return X.targets() if isinstance(X, DatasetArray) else super()._own_targets(X)

    def _targets_of(self, dataset: Dataset[Any], are_samples: bool) -> Any:
        """What an affinity compares of a Dataset: its targets, or the samples themselves."""
        return DatasetArray(dataset)[:] if are_samples else DatasetArray(dataset).targets()

    def _check_input(self, X: Any, **options: Any) -> Any:
        check_kind(X, self, takes_datasets=True)
        X = DatasetArray(X) if isinstance(X, Dataset) else X
        is_dataset = isinstance(X, DatasetArray)
        ndim = np.ndim(X) if isinstance(X, list) else getattr(X, "ndim", 2)
        is_small = getattr(getattr(X, "dtype", None), "itemsize", 8) < 4  # float32 holds these values
        options["dtype"] = [np.float32, np.float64] if is_small else [np.float64, np.float32]
        if not is_dataset and ndim <= 2:
            X = validate_data(self, X, **options)
        else:
            n_min = options.get("ensure_min_samples", 1)
            options["dtype"].append(np.uint8)
            options |= {"skip_check_array": is_dataset, "allow_nd": True}
            X = validate_data(self, X, ensure_2d=False, **options)
            if is_dataset and len(X) < n_min:
                raise ValueError(f"`X` must have at least {n_min} samples. Got a Dataset of {len(X)} instead.")
            if is_dataset and X.ndim == 1:
                raise ValueError("`X` must have samples that are arrays. Got a Dataset of numbers instead.")
        shape = tuple(X.shape[1:])
        if not options.get("reset", True):
            check_same_shape(shape, self.input_shape_, is_dataset)
            return X
        self.__dict__.pop("n_features_in_", None)  # of an earlier fit
        if len(shape) == 1:
            self.n_features_in_ = shape[0]
        else:
            check_channels(shape, self.backbone, is_dataset)
        self.input_shape_ = shape
        return X

    def _check_options(self) -> None:
        if self.smoothing and (self.backbone is not None or len(self.input_shape_) > 1):
            raise ValueError(
                "`smoothing` must be None or 0 with a backbone or with samples that are not vectors. "
                f"Got {self.smoothing} with backbone={self.backbone!r} and samples of shape {self.input_shape_}."
            )

    # --- resolve defaults

    def _resolve_defaults(self, X: Any) -> None:
        kind, n_samples = self._kind(), len(X)
        recipe: dict[str, Any] = dict(zip(self._settings, self._recipes[kind], strict=True))
        if self.optimizer == "sgd":
            recipe |= {"learning_rate": self._sgd_rates[kind], "weight_decay": 5e-4}
        batch_size = recipe["batch_size"] if self.batch_size is None else self.batch_size
        n_epochs = math.ceil(recipe.pop("n_steps") / count_batches(n_samples, batch_size))
        slope, most = LINEAR_NOISE if self.backbone is None else NOISE
        noise = min(slope * math.prod(X.shape[1:]) / n_samples, most)
        smooths = self.smoothing is None and self._learns_labels_of_tags(X)
        self.settings_ = self._with_given_values(
            recipe
            | {
                "n_epochs": int(np.clip(n_epochs, *self._n_epochs_range)),
                "input_dropout": noise / (1 + noise),
                "smoothing": SMOOTHING if smooths else 0.0,
            }
        )
        self._fixed = {name: getattr(self, name) for name in FIXED}

    def _learns_labels_of_tags(self, X: Any) -> bool:
        is_linear = self.backbone is None and X.ndim == 2
        by_labels = self._supervised and isinstance(self.affinity_, SharedLabelsAffinity)
        return is_linear and by_labels and are_tags(X[evenly_spaced(len(X), 1000)])

    def _with_given_values(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Settings, with the values of parameters that are not None."""
        given = {name: getattr(self, name) for name in settings}
        return {name: settings[name] if value is None else value for name, value in given.items()}

    def _n_tasks(self) -> int:
        return int(self.settings_["n_epochs"])

    def _draw_seed(self, file: TrainingFile | None = None) -> tuple[np.random.RandomState, int]:
        """Generator of the initial weights, and the seed of all other draws, both from `random_state`."""
        rng = check_random_state(self.random_state)
        seed = from_first(int(rng.randint(np.iinfo(np.int32).max)))
        seed = seed if file is None else file.begin(seed)
        return rng if self.random_state is not None else np.random.RandomState(seed), seed

    # --- build

    def _build_encoder(self, X: Any, rng: np.random.RandomState) -> Encoder:
        smoothing = self.settings_["smoothing"]
        n_directions = min(N_MAX_DIRECTIONS, min(X.shape) // 2) if smoothing else 0
        encoder = self._new_encoder(
            X.shape[1:],
            self.nbits,
            self.backbone,
            input_dropout=self.settings_["input_dropout"],
            hidden_dropout=self.hidden_dropout,
            batch_norm=self._batch_norm,
            mixed_precision=self.mixed_precision,
            n_directions=n_directions,
        )
        encoder.set_statistics(X)
        if n_directions:
            encoder.learn_smoothing(X, smoothing, rng)
        self._initialize(encoder, X, rng)
        return encoder

    def _rebuild_encoder(self, device: torch.device, training: bool = False) -> Encoder:
        """Encoder with the learned weights; for training also with dropout."""
        options: dict[str, Any] = {}
        if training:
            options = {"input_dropout": self.settings_["input_dropout"], "hidden_dropout": self.hidden_dropout}
            options["mixed_precision"] = self.mixed_precision
        with seeded(0, device):  # restores the global generators; the initial weights are replaced
            encoder = self._new_encoder(**(self._architecture | options))
        encoder.load_state_dict({name: torch.tensor(value) for name, value in self.weights_.items()})
        return encoder.to(device)

    def _build_trainer(
        self, encoder: Encoder, X: Any, targets: Any, order: np.random.Generator, device: torch.device, **changes: Any
    ) -> Trainer:
        settings: dict[str, Any] = {
            "n_epochs": self.settings_["n_epochs"],
            "batch_size": self.settings_["batch_size"],
            "learning_rate": self.settings_["learning_rate"],
            "backbone_lr_scale": self.backbone_lr_scale,
            "lr_schedule": self.lr_schedule,
            "optimizer": self.optimizer,
            "weight_decay": self.settings_["weight_decay"],
            "n_stages": self._n_stages(),
        }
        schedule = Schedule(**(settings | changes))
        return Trainer(encoder, self._objective(), X, targets, schedule, order, device, self._augmentation())

    def _feature_width(self) -> int:
        """Number of outputs of the backbone."""
        return output_width(build_backbone(self.backbone, self.input_shape_), self.input_shape_)

    # --- train

    def _fit(self, X: Any, targets: Any, resume: bool = False) -> None:
        check_same_training(self, X, targets)
        was_fitted = hasattr(self, "weights_") and not resume
        device = resolve_device(self.device)
        file = None if self.checkpoint is None else TrainingFile(self, X, targets, resume)
        rng, seed = self._draw_seed(file)
        order = np.random.default_rng(seed)
        train, train_targets, early_stopping = X, targets, None
        if self.early_stopping:
            early_stopping = self._hold_out(X, targets, order)
            train, train_targets = early_stopping.train, early_stopping.train_targets
        with seeded(seed, device, self.deterministic):
            encoder = self._build_encoder(train, rng)
            trainer = self._build_trainer(encoder, train, train_targets, order, device)
            self.history_ = []
            self.__dict__.pop("_stream", None)
            if file is not None:
                file.restore(trainer, early_stopping)
            try:
                self._fit_loop(trainer, early_stopping, file, X, targets)
            except KeyboardInterrupt as interrupt:
                if was_fitted or not self.history_:
                    raise
                self._store_database(X, targets)
                raise InterruptedFit from interrupt

    def _hold_out(self, X: Any, targets: Any, order: np.random.Generator) -> EarlyStopping:
        affinity = "auto" if self.affinity_ is None else self.affinity_
        train, held_out = split_indices(len(X), targets, self.validation_fraction, order)
        subsets = ArraySubset(X, held_out), targets[held_out], ArraySubset(X, train), targets[train]
        return EarlyStopping(*subsets, affinity, self._score_metric(), self.n_iter_no_change)

    def _fit_loop(
        self, trainer: Trainer, early_stopping: EarlyStopping | None, file: TrainingFile | None, X: Any, targets: Any
    ) -> None:
        """Train epoch by epoch, with callbacks, early stopping and checkpoints."""
        while not self._should_stop(trainer, early_stopping):
            context = self._callback_fit_ctx.subcontext(task_name="epoch")
            context.call_on_fit_task_begin(estimator=self, X=X, y=targets)
            entry = {"epoch": trainer.n_epochs_done + 1, "loss": trainer.run_epoch()}
            if trainer.stage_ended:
                entry |= self._measure_stage(trainer)
            weights = trainer.encoder.state_dict()
            if early_stopping is None or early_stopping.improves(trainer.encoder, entry):
                self._store_weights(weights)
            self.history_.append(entry)
            self.n_epochs_ = len(self.history_)
            if file is not None:
                file.write(trainer, early_stopping)
            stops = context.call_on_fit_task_end(
                estimator=self,
                X=X,
                y=targets,
                reconstruction_attributes=lambda weights=weights: self._reconstruction_attributes(X, targets, weights),
            )
            if any(gather(bool(stops))):
                break
        self.n_epochs_ = len(self.history_)

    def _should_stop(self, trainer: Trainer, early_stopping: EarlyStopping | None) -> bool:
        stops_early = early_stopping is not None and early_stopping.should_stop(len(self.history_))
        return stops_early or trainer.n_epochs_done >= trainer.schedule.n_epochs

    # --- store

    def _store_weights(self, weights: dict[str, torch.Tensor]) -> None:
        self.weights_ = {name: value.detach().cpu().numpy().copy() for name, value in weights.items()}
        n_directions = len(weights.get("backbone.gains", ())) if self.backbone is None else 0
        self._architecture = {
            "shape": self.input_shape_,
            "nbits": self._nbits,
            "backbone": self.backbone,
            "batch_norm": self._batch_norm,
            "n_directions": n_directions,
            "has_offset": "offset" in weights,
        }

    # --- hash

    def _module(self) -> Encoder:
        """Encoder in evaluation mode on its device, built from `weights_` once."""
        device = resolve_device(self.device)
        cached = getattr(self, "_cache", None)
        if cached is None or cached[0] is not self.weights_ or cached[1] != device:
            with self._thread_limits():  # initial weights use OpenMP, which has no threads in a forked process
                encoder = self._rebuild_encoder(torch.device("cpu")).fold().to(device).eval()
            is_dense = self.backbone in (None, "mlp") and len(self.input_shape_) == 1 and type(encoder) is Encoder
            few = FewEncoder(encoder) if is_dense and device.type == "cpu" else None
            self._cache = cached = (self.weights_, device, encoder, few)
        return cached[2]

    def _project(self, X: Any) -> npt.NDArray[np.floating]:
        activations: npt.NDArray[np.floating] = compute_activations(self._module(), X)
        return activations

    def _project_few(self, X: Any) -> npt.NDArray[np.floating] | None:
        self._module()
        few = self._cache[3] if isinstance(X, np.ndarray) else None
        return few(X) if few is not None and len(X) * few.n_products <= N_MAX_PRODUCTS else None

    @contextmanager
    def _thread_limits(self) -> Iterator[None]:
        """Limit the threads of torch, and ignore the caller's settings of torch.

        A given backbone may use all threads, unless `deterministic` is set or the process is forked.
        """
        is_limited = self.deterministic or not isinstance(self.backbone, nn.Module) or is_forked()
        with own_settings(), one_thread() if is_limited else nullcontext():
            yield

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__().copy()
        state.pop("_cache", None)
        return state
