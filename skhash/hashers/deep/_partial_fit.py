"""partial_fit, and the state of the training that it stores between calls."""

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from skhash._compat import fit_context
from skhash._files import qualified_name
from skhash.affinity._levels import check_pairs
from skhash.engine import Trainer, as_arrays, as_tensors, resolve_device, seeded
from skhash.hashers.deep._processes import check_same_training

#: parameters that decide the weights of the encoder and what is relevant
FIXED = ("nbits", "backbone", "affinity", "smoothing")


class PartialFitMixin:
    """Mixin of hashers that learn from a stream of samples."""

    _objective_params: tuple[str, ...] = ()  # parameters that decide which weights the objective has

    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self: Any, X: Any, y: Any = None) -> Any:
        """Train for one pass over the next samples of a stream.

        The first call sets the mean and the scale, the directions of smoothing, the affinity and
        the parameters that are None, so its samples should be like the later ones. The learning
        rate is constant and may change between calls. A continuation stays in its first stage.
        The state of the optimizer is kept, and so are the weights of the objective, such as a
        classifier. The first call after :meth:`fit`, which keeps only the encoder, starts them
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
        with self._restored_on_failure():
            is_first = not hasattr(self, "weights_")
            if not is_first:
                fixed = dict.fromkeys(FIXED) | self._fixed | getattr(self, "_stream", {"fixed": {}})["fixed"]
                check_unchanged({name: getattr(self, name) for name in fixed}, fixed)
            X, targets = self._validate_fit_data(X, y, reset=is_first)
            if is_first:
                self._nbits, self.history_ = int(self.nbits), []
                self._fit_affinity(targets)
            else:
                self._check_kind_of_targets(targets)
                self._check_next_targets(targets)
            if self._supervised:
                self._warn_without_pairs(targets)
            if is_first:
                self._check_options()
                self._resolve_defaults(X)
            self.settings_ = self._with_given_values(self.settings_)
            check_same_training(self, X, targets)
            device = resolve_device(self.device)
            rng, seed = self._draw_seed()
            with self._thread_limits(), seeded(seed, device, self.deterministic):
                encoder = self._build_encoder(X, rng) if is_first else self._rebuild_encoder(device, training=True)
                order = np.random.default_rng(seed)
                constant = {"n_epochs": 1, "n_stages": 1, "lr_schedule": "constant"}
                trainer = self._build_trainer(encoder, X, targets, order, device, **constant)
                if hasattr(self, "_stream"):
                    restore_state(trainer, self._stream, self.optimizer)
                self.history_ = [*self.history_, {"epoch": len(self.history_) + 1, "loss": trainer.run_epoch()}]
                fixed = {name: getattr(self, name) for name in ("backbone_lr_scale", *self._objective_params)}
                self._stream = capture_state(trainer, fixed)
            self._store_weights(encoder.state_dict())
            self.n_epochs_ = len(self.history_)
            self._store_database(X, targets)
        return self

    def _check_kind_of_targets(self: Any, targets: Any) -> None:
        """Raise ValueError for targets that the affinity cannot compare with those of the last call."""
        before, one = self.database_y_, slice(0, 1)
        if self.affinity_ is not None and before is not None and targets is not None:
            self.affinity_(before[one], targets[one])

    def _check_next_targets(self, targets: Any) -> None:
        """Raise ValueError for targets that do not match those of the first call."""

    def _warn_without_pairs(self: Any, targets: Any) -> None:
        try:
            check_pairs(self.affinity_, targets)
        except ValueError as error:
            message = f"{error} Such samples teach little or nothing: mix the samples of a stream."
            warnings.warn(message, UserWarning, stacklevel=4)


def check_unchanged(params: Mapping[str, Any], fixed: Mapping[str, Any]) -> None:
    """Raise ValueError if a parameter differs from its value in `fixed`, when the weights were learned."""
    for name, value in fixed.items():
        given = params[name]
        if name == "backbone_lr_scale" and given and value:
            continue  # the backbone is trained with both values
        if given is not value and given != value:
            raise ValueError(_message(name, given, value))


def capture_state(trainer: Trainer, fixed: dict[str, Any]) -> dict[str, Any]:
    """State of arrays and plain values that the next call continues from, without the weights of the encoder."""
    state: dict[str, Any] = as_arrays(trainer.state_dict()) | {"n_epochs_done": 0, "fixed": fixed}
    del state["encoder"]
    return state | {"optimizer_class": qualified_name(trainer.optimizer)}


def restore_state(trainer: Trainer, state: dict[str, Any], optimizer: Any) -> None:
    """Continue a new trainer from a state, with the learning rates and weight decays that are set now."""
    if qualified_name(trainer.optimizer) != state["optimizer_class"]:
        raise ValueError(_message("optimizer", optimizer, state["optimizer_class"]))
    now = [{name: group[name] for name in ("lr", "weight_decay")} for group in trainer.optimizer.param_groups]
    trainer.load_state_dict(as_tensors(state) | {"encoder": trainer.encoder.state_dict()})
    for group, values in zip(trainer.optimizer.param_groups, now, strict=True):
        group.update(values)


def _message(name: str, given: Any, value: Any) -> str:
    return f"`{name}` must stay {value!r} in partial_fit. Got {given!r} instead. Set it back, or fit a new hasher."
