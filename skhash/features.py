"""Features of images from a pretrained network that is not trained, computed once; and codes that find copies."""

import hashlib
import os
import secrets
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from functools import cache
from numbers import Integral
from pathlib import Path
from typing import Any, Self

try:
    import torch
except ModuleNotFoundError as error:
    raise ImportError("torch must be installed for features of images: pip install torch") from error

import numpy as np
import numpy.typing as npt
from scipy.fft import dctn
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import nn
from torch.nn.parameter import is_lazy
from torch.utils.data import Dataset

from skhash._compat import Interval, cached_property, fit_context
from skhash._threads import one_thread
from skhash._validation import as_count, check_channels, qualified_name, resolve_device
from skhash.codes.bits import memory_chunks
from skhash.engine.augment import moco_v2
from skhash.engine.backbones import build_backbone, clone_with_module, output_width
from skhash.engine.data import DatasetArray, batch_tensor
from skhash.engine.networks import check_range, declared_statistics, is_network
from skhash.engine.runtime import full_precision, own_settings, seeded
from skhash.persistence.identity import code_of, digest

Features = npt.NDArray[np.float32]
AUTO = "auto"  # the folder of the user

_COPY_BITS = 64  # of a code that finds copies
_FLAT = 0.05  # gray levels of a frequency that is only noise
_PARTS = 4  # of a side, whose colors are averaged
_GRAY = np.array([0.299, 0.587, 0.114], np.float32)  # of red, green and blue, by ITU-R BT.601


class PretrainedFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Features of images: the outputs of a pretrained network, which is not trained.

    It is the first step of a Pipeline whose other steps learn from vectors. The features of each file are
    computed once, because they are kept in a folder.

    Parameters
    ----------
    network : str or torch.nn.Module, default="efficientnet-lite0"
        A name for :func:`skhash.engine.load_network`, or a module that maps images to features of
        shape (n, width).
    cache : path-like or None, default="auto"
        Folder that keeps the features of images of :func:`skhash.datasets.load_images`, by network,
        its weights and its code, by size and channels of images, and by the path, the size and the time of
        each file. A stopped run continues where it stopped, and the features of a changed file are computed
        again. "auto" is the folder ``features`` in the one that the environment variable ``SKHASH_CACHE``
        names, by default ``skhash`` in the user's cache folder (on Linux ``~/.cache``); it is not used for
        images that are not files, and for a network whose source cannot be read. None keeps nothing.
        Folders of features can be removed at any time.
    batch_size : int, default=32
        Number of images at once.
    device : str, default="auto"
        "cpu", "cuda", "cuda:1", ...; "auto" uses a CUDA device if there is one.
    verbose : bool, default=False
        Whether to write the number of images done and the time left to stderr.

    Attributes
    ----------
    digest_ : str
        SHA-256 of the weights of the network.
    input_shape_ : tuple of int
        Shape of the images of :meth:`fit`.
    n_features_out_ : int
        Number of features.

    See Also
    --------
    skhash.datasets.load_images : Images of a folder.

    Notes
    -----
    Networks by name get images with the statistics of their pretraining. A module that does not declare
    them, see :class:`skhash.engine.Network`, gets values in [0, 1].

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from sklearn.pipeline import make_pipeline
    >>> from skhash import ITQHasher
    >>> from skhash.features import PretrainedFeatures
    >>> images = np.random.default_rng(0).integers(0, 256, (20, 3, 8, 8), dtype=np.uint8)
    >>> network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 16))
    >>> hasher = make_pipeline(
    ...     PretrainedFeatures(network), ITQHasher(8, random_state=0)
    ... ).fit(images)
    >>> hasher.transform(images).shape
    (20, 8)
    """

    _parameter_constraints: dict[str, list[Any]] = {
        "network": [str, nn.Module],
        "cache": [str, os.PathLike, None],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "device": [str, torch.device],
        "verbose": ["boolean"],
    }

    digest_: str
    input_shape_: tuple[int, ...]
    n_features_out_: int

    def __init__(
        self,
        network: str | nn.Module = "efficientnet-lite0",
        *,
        cache: str | os.PathLike[str] | None = "auto",
        batch_size: int = 32,
        device: str | torch.device = "auto",
        verbose: bool = False,
    ) -> None:
        self.network = network
        self.cache = cache
        self.batch_size = batch_size
        self.device = device
        self.verbose = verbose

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> Self:
        """Load the network. Nothing is learned.

        Parameters
        ----------
        X : array-like of shape (n_samples, channels, height, width), or torch Dataset
            Images: bytes, or values in [0, 1].
        y : object, default=None
            Ignored.

        Returns
        -------
        self : object
            The transformer.

        Examples
        --------
        >>> import numpy as np
        >>> import torch
        >>> from skhash.features import PretrainedFeatures
        >>> images = np.zeros((4, 3, 8, 8), dtype=np.uint8)
        >>> len(PretrainedFeatures(torch.nn.Flatten()).fit(images).digest_)
        64
        """
        if not isinstance(self.network, nn.Module) and not is_network(self.network):
            raise ValueError(
                "`network` must be 'efficientnet-lite0', 'timm/NAME', 'torchvision/NAME' or a torch.nn.Module. "
                f"Got {self.network!r} instead."
            )
        self.input_shape_ = tuple(_as_images(X).shape[1:])
        check_channels(self.input_shape_, self.network, isinstance(X, Dataset))
        for name in ("_module", "_identity", "digest_"):
            self.__dict__.pop(name, None)
        self.n_features_out_ = self._tried(self._module)
        self.digest_ = digest_of(self._module)
        return self

    def transform(self, X: Any) -> Features:
        """Features of images.

        Parameters
        ----------
        X : array-like of shape (n_samples, channels, height, width), or torch Dataset
            Images: bytes, or values in [0, 1].

        Returns
        -------
        ndarray of shape (n_samples, width), float32
            The features.

        Raises
        ------
        ValueError
            If `X` has no images, or values that are not in [0, 1].
        InvalidFileError
            If the file of an image is damaged.

        Examples
        --------
        >>> import numpy as np
        >>> import torch
        >>> from skhash.features import PretrainedFeatures
        >>> images = np.zeros((4, 3, 8, 8), dtype=np.uint8)
        >>> PretrainedFeatures(torch.nn.Flatten()).fit_transform(images).shape
        (4, 192)
        """
        return self._computed(X)

    def views(self, X: Any, n_views: int = 8, *, random_state: Any = None) -> "FeatureViews":
        """Features of random versions of images, for hashers that learn from an augmentation.

        The versions are those of MoCo v2: crops, flips, blur and changes of color (needs kornia).

        Parameters
        ----------
        X : array-like of shape (n_samples, channels, height, width), or torch Dataset
            Images: bytes, or values in [0, 1].
        n_views : int, default=8
            Number of versions of each image.
        random_state : int, RandomState instance or None, default=None
            Decides the versions. With a cache, the same int finds them again.

        Returns
        -------
        FeatureViews
            Its attribute ``samples`` has the features of the images. It is the `augment` of a hasher
            that is fitted to these.

        Examples
        --------
        >>> import numpy as np
        >>> import torch
        >>> from skhash import CIBHashHasher
        >>> from skhash.features import PretrainedFeatures
        >>> images = np.random.default_rng(0).integers(0, 256, (20, 3, 8, 8), dtype=np.uint8)
        >>> network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 16))
        >>> views = PretrainedFeatures(network).fit(images).views(images, 2, random_state=0)
        >>> views.samples.shape, views.versions.shape
        ((20, 16), (20, 2, 16))
        >>> hasher = CIBHashHasher(8, augment=views, n_epochs=1, random_state=0)
        >>> hasher.fit(views.samples).transform(views.samples).shape
        (20, 8)
        """
        n_views = as_count(n_views, "n_views")
        seed = int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
        samples = self._computed(X)
        versions = np.empty((len(samples), n_views, samples.shape[1]), np.float32)
        for view in range(n_views):
            versions[:, view] = self._computed(X, (seed, view))
        return FeatureViews(samples, versions)

    def _computed(self, X: Any, version: tuple[int, int] | None = None) -> Features:
        """Features of images, or of a version of them: a seed and a number. Those in the cache are read."""
        check_is_fitted(self)
        images, batch_size = _as_images(X), int(self.batch_size)
        if images.shape[1:] != self.input_shape_:
            raise ValueError(f"`X` must have images of shape {self.input_shape_}. Got {images.shape[1:]} instead.")
        cache = self._open_cache(X, version)
        missing = np.arange(len(images)) if cache is None else cache.missing
        if hasattr(X, "check_files"):
            X.check_files(missing)
        if version is not None and len(missing):  # each batch has its own seed, so that it stays whole
            batches = np.unique(missing // batch_size)
            missing = np.flatnonzero(np.isin(np.arange(len(images)) // batch_size, batches))
        features = np.empty((len(images), self.n_features_out_), np.float32)
        if cache is not None:
            cache.read(features)
        with own_settings(), self._progress(len(missing)) as show, _appending(cache, len(missing)) as append:
            for start in range(0, len(missing), batch_size):
                part = missing[start : start + batch_size]
                features[part] = self._features(images, part, version)
                append(features[part], part)
                show(start + len(part))
        return features

    @cached_property
    def _module(self) -> nn.Module:
        """The network in evaluation mode."""
        # random weights of a name are replaced; most arrays are too small for several threads
        with own_settings(), seeded(0, torch.device("cpu")), one_thread():
            module = build_backbone(self.network, self.input_shape_, name="network").eval()
        if any(map(is_lazy, (*module.parameters(), *module.buffers()))):
            self._tried(module)  # the first call makes its weights
        if hasattr(self, "digest_") and digest_of(module) != self.digest_:
            raise ValueError(
                "`network` must have the weights that it had in fit. Got others instead. Install the package of the "
                "weights in the version of the fit, or fit again."
            )
        return module

    def _tried(self, module: nn.Module) -> int:
        """Number of features, from a trial of the network."""
        with own_settings(), seeded(0, torch.device("cpu")):
            return output_width(module, self.input_shape_, name="network")

    @property
    def _n_features_out(self) -> int:
        """The name that scikit-learn needs."""
        return self.n_features_out_

    def _unknown(self, X: Any) -> npt.NDArray[np.int64]:
        """Indices of images whose features are not in the cache, in ascending order; all without a cache."""
        check_is_fitted(self)
        cache = self._open_cache(X, None)
        return np.arange(len(X)) if cache is None else cache.missing

    def _open_cache(self, X: Any, version: tuple[int, int] | None) -> "_Cache | None":
        """The folder of features, with those of images; None for none."""
        if self.cache is None:
            return None
        is_auto = self.cache == AUTO
        if not hasattr(X, "file_keys"):
            if is_auto:
                return None
            raise ValueError(
                "`cache` must be None for images that are not files. "
                f"Got {os.fspath(self.cache)!r} with a {type(X).__name__}. Read them with skhash.datasets.load_images."
            )
        try:
            identity = self._identity
        except TypeError:
            if is_auto:
                return None
            raise
        keys: list[bytes] = X.file_keys()
        if version is not None:
            keys = [hashlib.sha256(key + repr(version).encode()).digest() for key in keys]
        if not is_auto:
            return _Cache(Path(self.cache), identity, self.n_features_out_, keys)
        try:
            return _Cache(_cache_home(), identity, self.n_features_out_, keys, is_auto=True)
        except (OSError, RuntimeError) as error:  # RuntimeError: there is no home
            _warn_of_cache(str(error))
            return None

    @cached_property
    def _identity(self) -> str:
        """Digest of what decides the features of an image: weights, code, and the statistics of the input."""
        declared = declared_statistics(self._module, self.input_shape_[0])
        try:
            kinds = {kind for part in self._module.modules() for kind in type(part).__mro__}
            network = digest([self._module, code_of(kinds)], "network")
        except TypeError as error:
            raise TypeError(
                "`network` must be of classes in files, and not scripted, to have a `cache`. Got a "
                f"{qualified_name(self.network)} instead. Set cache=None."
            ) from error
        return hashlib.sha256(f"{network} {declared}".encode()).hexdigest()

    @torch.no_grad()
    def _features(self, images: Any, indices: npt.NDArray[np.int64], version: tuple[int, int] | None) -> Features:
        device = resolve_device(self.device)
        module = self._module.to(device)
        batch = batch_tensor(images, indices, device)
        if version is not None:
            seed = np.random.SeedSequence([*version, int(indices[0])]).generate_state(1)[0]
            with seeded(int(seed), device):
                batch = moco_v2(self.input_shape_)(batch)
        if (declared := declared_statistics(module, self.input_shape_[0])) is not None:
            check_range(batch)
            mean, std = (torch.tensor(values, device=device)[:, None, None] for values in declared)
            batch = (batch - mean) / std
        with full_precision(device):
            features: Features = module(batch).float().cpu().numpy()
        if features.shape[1:] != (self.n_features_out_,):  # the user has changed the class of the module
            raise ValueError(
                f"`network` must have outputs of shape (n, {self.n_features_out_}), as in fit. Got {features.shape} "
                "instead. Fit again."
            )
        if not np.isfinite(features).all():
            raise ValueError("The features must be finite. Got NaN or infinity instead: look for such values in `X`.")
        return features

    def _progress(self, n: int) -> AbstractContextManager[Callable[[int], None]]:
        if not self.verbose or not n:
            return nullcontext(lambda n_done: None)
        from skhash._progress import progress

        return progress("Features", n, "images")

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__().copy()
        for name in ("_module", "_identity"):
            state.pop(name, None)
        return state

    def __sklearn_clone__(self) -> Self:
        if not isinstance(self.network, nn.Module):
            return super().__sklearn_clone__()  # type: ignore[no-any-return]
        return clone_with_module(self, "network")  # type: ignore[no-any-return]


def digest_of(module: nn.Module) -> str:
    """SHA-256 of the weights of a module."""
    digest = hashlib.sha256()
    for name, value in module.state_dict().items():
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(value.cpu().numpy()).tobytes())
    return digest.hexdigest()


def _as_images(X: Any) -> Any:
    """Images that are read by index; ValueError for other samples."""
    images = DatasetArray(X) if isinstance(X, Dataset) else np.asarray(X)
    if len(images.shape) != 4:
        raise ValueError(
            "`X` must have images of shape (n_samples, channels, height, width), or be a torch Dataset of images. "
            f"Got shape {tuple(images.shape)} instead. skhash.datasets.load_images reads a folder."
        )
    return images


def _cache_home() -> Path:
    """Folder of features in the user's cache folder, or in the one of SKHASH_CACHE."""
    if home := os.environ.get("SKHASH_CACHE"):
        return Path(home, "features").expanduser()
    system = os.environ.get("LOCALAPPDATA" if os.name == "nt" else "XDG_CACHE_HOME")
    return Path(system or "~/.cache", "skhash", "features").expanduser()


@cache
def _warn_of_cache(reason: str) -> None:
    """Warn once that features are not kept."""
    warnings.warn(
        f"Features of pictures are not kept, and will be computed again: {reason}. Set the environment variable "
        "SKHASH_CACHE to a folder that can be written, or cache=None.",
        UserWarning,
        stacklevel=2,
    )


class _Cache:
    """Features of image files in a folder. Each process appends to two files of its own: features, then their keys."""

    def __init__(self, folder: Path, identity: str, width: int, keys: list[bytes], is_auto: bool = False) -> None:
        self.folder, self.keys = folder.expanduser() / identity[:16], keys
        self.is_auto, self.is_closed = is_auto, False
        beginnings = np.frombuffer(b"".join(self.keys), "<u8").reshape(-1, 4)[:, 0]
        places: dict[bytes, Any] = {}
        for file in sorted(self.folder.glob("*.keys")):
            data, values = file.read_bytes(), file.with_suffix(".features")
            n = min(len(data) // 32, values.stat().st_size // (4 * width))  # the last ones of a killed run may be cut
            stored = np.frombuffer(data, "<u8", 4 * n).reshape(n, 4)
            found = np.flatnonzero(np.isin(stored[:, 0], beginnings))  # few of many, for a single query
            if len(found):
                features = np.memmap(values, "<f4", "r", shape=(n, width))
                places |= {stored[i].tobytes(): (features, i) for i in found}
        self.places = [places.get(key) for key in self.keys]
        self.missing = np.array([i for i, place in enumerate(self.places) if place is None], dtype=np.int64)

    def read(self, features: Features) -> None:
        """Copy the features that are in the folder into an array of those of all images."""
        for i, place in enumerate(self.places):
            if place is not None:
                stored, row = place
                features[i] = stored[row]

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Context manager that turns an error of the default folder into a warning, and closes the folder."""
        try:
            yield
        except OSError as error:
            if not self.is_auto:
                raise
            self.is_closed = True
            _warn_of_cache(str(error))


@contextmanager
def _appending(cache: _Cache | None, n: int) -> Iterator[Any]:
    """Context manager of a function that appends features of images with some indices to a cache, if there is one.

    The default folder does not keep the features of one image: a query is searched once, and each run makes two files.
    """
    if cache is None or not n or (cache.is_auto and n == 1):
        yield lambda features, indices: None
        return
    path = cache.folder / secrets.token_hex(8)
    with ExitStack() as files:
        with cache.writing():
            cache.folder.mkdir(parents=True, exist_ok=True)
            values, keys = (files.enter_context(open(path.with_suffix(end), "xb")) for end in (".features", ".keys"))

        def append(features: Features, indices: npt.NDArray[np.int64]) -> None:
            if cache.is_closed:
                return
            with cache.writing():
                values.write(features.astype("<f4").tobytes())
                values.flush()  # before the keys, so that each key has its features
                keys.write(b"".join(cache.keys[i] for i in indices))
                keys.flush()
            if cache.is_closed:  # the disk is full
                for file in (values, keys):
                    with suppress(OSError):  # it would try to write again
                        file.close()

        yield append


class FeatureViews:
    """Features of images and of random versions of them. Called on a batch of features, it draws a version of each.

    Parameters
    ----------
    samples : ndarray of shape (n_samples, width), float32
        Features of the images. A hasher with this object as `augment` is fitted to them.
    versions : ndarray of shape (n_samples, n_views, width), float32
        Features of the versions.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from skhash.features import FeatureViews
    >>> samples = np.array([[0.0], [1.0]], dtype=np.float32)
    >>> views = FeatureViews(samples, samples[:, None] + 0.5)
    >>> views(torch.tensor([[1.0], [0.0]]))
    tensor([[1.5000],
            [0.5000]])
    """

    def __init__(self, samples: Features, versions: Features) -> None:
        self.samples, self.versions = samples, versions
        self._rows = {row.tobytes(): i for i, row in enumerate(np.ascontiguousarray(samples))}

    def __call__(self, batch: torch.Tensor) -> torch.Tensor:
        """Draw a version of each sample of a batch.

        Parameters
        ----------
        batch : tensor of shape (n_batch, width), float32
            Some of the samples.

        Returns
        -------
        tensor of shape (n_batch, width), float32
            A random version of each.

        Raises
        ------
        ValueError
            If a row of the batch is none of the samples.

        Examples
        --------
        >>> import numpy as np
        >>> import torch
        >>> from skhash.features import FeatureViews
        >>> samples = np.zeros((1, 2), dtype=np.float32)
        >>> FeatureViews(samples, samples[:, None] + 1)(torch.zeros(3, 2)).shape
        torch.Size([3, 2])
        """
        try:
            rows = [self._rows[row.tobytes()] for row in batch.cpu().numpy()]
        except KeyError:
            raise ValueError("`augment` must be the views of `X`: fit the hasher to their `samples`.") from None
        drawn = torch.randint(self.versions.shape[1], (len(rows),)).numpy()
        return torch.from_numpy(self.versions[rows, drawn]).to(batch.device)


def perceptual_codes(X: Any) -> tuple[npt.NDArray[np.uint8], Features]:
    """Codes of images that stay almost the same when an image is resized, compressed or made brighter.

    A code has the signs of the 64 lowest frequencies of the gray image, without its mean. Nothing is learned, so that
    an image has the same code in each collection. The codes find copies of an image, but not other images of the same
    object, and not copies that are turned, mirrored or cut. Images of one color have equal codes, whatever it is:
    the colors tell them apart.

    Parameters
    ----------
    X : array-like of shape (n_samples, channels, height, width), or torch Dataset
        Images of 1 or 3 channels and of at least 16 x 16 pixels: bytes, or values in [0, 1].
        ``load_images(folder, size=32)`` has all that the codes see.

    Returns
    -------
    codes : uint8 ndarray of shape (n_samples, 8)
        Packed codes of 64 bits.
    colors : float32 ndarray of shape (n_samples, 48)
        Mean colors of 4 x 4 parts of each image. Their Euclidean distance is the root mean square difference of the
        colors of two images, between 0 and 255.

    Raises
    ------
    ValueError
        If `X` has no images, or they are too small, or have other channels or values.

    See Also
    --------
    skhash.neighbors.duplicate_groups : Groups of near codes, confirmed by such vectors.

    Notes
    -----
    The codes follow the perceptual hash of Zauner [1]_, with the signs of frequencies in place of a comparison with
    their median, and with the lowest frequencies by the sum of both in place of the square of 8 x 8.

    References
    ----------
    .. [1] Christoph Zauner. Implementation and benchmarking of perceptual image hash functions. 2010.

    Examples
    --------
    >>> import numpy as np
    >>> from skhash.codes import hamming_distances
    >>> from skhash.features import perceptual_codes
    >>> images = np.random.default_rng(0).random((3, 3, 32, 32))
    >>> images[2] = 0.9 * images[0]  # a darker copy
    >>> codes, colors = perceptual_codes(images)
    >>> hamming_distances(codes, codes, nbits=64)[2].tolist()
    [0, 30, 0]
    """
    images = _as_images(X)
    n, n_channels, height, width = images.shape
    if not n or n_channels not in (1, 3) or min(height, width) < 16:
        raise ValueError(
            "`X` must have at least one image, of 1 or 3 channels and of at least 16 x 16 pixels. "
            f"Got shape {tuple(images.shape)} instead."
        )
    codes = np.empty((n, _COPY_BITS // 8), np.uint8)
    colors = np.empty((n, 3 * _PARTS**2), np.float32)
    sums = np.add.outer(np.arange(16), np.arange(16))
    lowest = np.argsort(sums, axis=None, kind="stable")[1 : 1 + _COPY_BITS]  # without the mean
    rows, columns = (np.arange(_PARTS) * side // _PARTS for side in (height, width))
    n_pixels = np.outer(np.diff(rows, append=height), np.diff(columns, append=width))
    for part in memory_chunks(n, 64 * height * width):
        batch = np.asarray(images[part])
        levels = batch.astype(np.float32) * np.float32(1 if batch.dtype == np.uint8 else 255)
        low, high = levels.min() / 255, levels.max() / 255
        if not (low >= -0.01 and high <= 1.01):  # NaN is neither
            raise ValueError(
                f"`X` must have bytes, or values in [0, 1]. Got values from {low:.3g} to {high:.3g} instead."
            )
        levels = np.broadcast_to(levels, (len(levels), 3, height, width))
        gray = np.tensordot(_GRAY, levels, axes=(0, 1))
        waves = dctn(gray, axes=(1, 2), norm="forward")[:, :16, :16].reshape(len(gray), -1)
        codes[part] = np.packbits(waves[:, lowest] >= -_FLAT, axis=1)
        means = np.add.reduceat(np.add.reduceat(levels, rows, axis=2), columns, axis=3) / n_pixels
        colors[part] = means.reshape(len(gray), -1) / np.sqrt(colors.shape[1])
    return codes, colors
