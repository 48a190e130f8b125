"""Signs with straight-through gradients, for hashers that learn from codes of -1 and 1."""

import torch


def sign(h: torch.Tensor) -> torch.Tensor:
    """Sign of each activation, 1 for 0, with the gradient of the identity (straight through).

    Parameters
    ----------
    h : tensor
        Activations.

    Returns
    -------
    tensor
        Values -1 and 1, in the shape of `h`.

    Examples
    --------
    >>> import torch
    >>> from skhash.hashers.deep import sign
    >>> h = torch.tensor([-0.5, 0.0], requires_grad=True)
    >>> code = sign(h)
    >>> code.tolist(), torch.autograd.grad(code.sum(), h)[0].tolist()
    ([-1.0, 1.0], [1.0, 1.0])
    """
    return h + (torch.where(h >= 0, 1.0, -1.0) - h).detach()


def bernoulli_sign(logits: torch.Tensor) -> torch.Tensor:
    """Random bits, 1 with probability p = sigmoid(logit) and else -1, with the gradient of their mean 2 p - 1.

    Parameters
    ----------
    logits : tensor
        Logits of the bits.

    Returns
    -------
    tensor
        Values -1 and 1, in the shape of `logits`: sign(p - u), with u uniform in [0, 1) from torch's
        global generator.

    Examples
    --------
    >>> import torch
    >>> from skhash.hashers.deep import bernoulli_sign
    >>> logits = torch.tensor([-200.0, 0.0, 200.0], requires_grad=True)
    >>> code = bernoulli_sign(logits)
    >>> code[0].item(), code[2].item()
    (-1.0, 1.0)
    >>> torch.autograd.grad(code.sum(), logits)[0].tolist()  # 2 p (1 - p)
    [0.0, 0.5, 0.0]
    """
    p = torch.sigmoid(logits)
    return sign(2 * (p - torch.rand_like(p)))
