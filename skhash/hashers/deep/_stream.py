"""What goes from call to call of partial_fit: the same model, and the state of its training."""

from skhash._files import qualified_name
from skhash.engine import as_arrays, as_tensors

FIXED = ("nbits", "backbone", "affinity", "smoothing")  # what decides the weights of the encoder, and what is relevant


def check_same_model(hasher):
    """Raise for parameters that were set anew, though what was learned depends on what they were.

    Parameters
    ----------
    hasher : DeepHasher
        A fitted hasher.

    Raises
    ------
    ValueError
        If there is one.
    """
    fixed = dict.fromkeys(FIXED) | hasher._fixed | getattr(hasher, "_stream", {"fixed": {}})["fixed"]
    for name, value in fixed.items():
        given = getattr(hasher, name)
        if name == "backbone_lr_scale" and given and value:
            continue  # the backbone learned, and will
        if given is not value and given != value:
            raise _another_model(name, given, value)


def stream_state(hasher, trainer):
    """Collect what the next call wants, apart from the encoder's weights.

    Parameters
    ----------
    hasher : DeepHasher
        The hasher.
    trainer : Trainer
        What it was trained by.

    Returns
    -------
    dict
        The trainer's state, of arrays and plain data, with the parameters that it depends on.
    """
    fixed = {name: getattr(hasher, name) for name in ("backbone_lr_scale", *hasher._of_objective)}
    state = as_arrays(trainer.state_dict()) | {"n_epochs_done": 0, "fixed": fixed}
    del state["encoder"]
    return state | {"optimizer_class": qualified_name(trainer.optimizer)}


def go_on(hasher, trainer):
    """Hand the state of the stream to a new trainer, which keeps the step sizes and decays that are set now.

    Parameters
    ----------
    hasher : DeepHasher
        The hasher.
    trainer : Trainer
        Changed in place.

    Raises
    ------
    ValueError
        If the state is another optimizer's.
    """
    optimizer, learned_by = trainer.optimizer, hasher._stream["optimizer_class"]
    if qualified_name(optimizer) != learned_by:
        raise _another_model("optimizer", hasher.optimizer, learned_by)
    now = [{name: group[name] for name in ("lr", "weight_decay")} for group in optimizer.param_groups]
    trainer.load_state_dict(as_tensors(hasher._stream) | {"encoder": trainer.encoder.state_dict()})
    for group, values in zip(optimizer.param_groups, now, strict=True):
        group.update(values)


def _another_model(name, given, value):
    return ValueError(
        f"{name}={given!r}, but the weights were learned with {value!r}; that, or a new hasher, is wanted."
    )
