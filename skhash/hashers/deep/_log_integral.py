"""The logarithmic integral, which torch lacks, with its derivative."""

from typing import Any

import numpy as np
import torch

N_TERMS = 60  # of the series, which is as precise as float64 up to x = exp(15)


class LogIntegral(torch.autograd.Function):
    """li(x) for x > 1, with its derivative 1 / ln x: from scipy on a CPU, by its series on other devices."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        """Values of a float64 tensor of any shape."""
        from scipy.special import expi

        ctx.save_for_backward(x)
        if x.device.type == "cpu":
            return torch.from_numpy(expi(np.log(x.detach().numpy())))
        return log_integral_series(x)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        """Gradient with respect to x."""
        (x,) = ctx.saved_tensors
        return gradient / torch.log(x)


def log_integral_series(x: torch.Tensor) -> torch.Tensor:
    """li(x) = gamma + ln ln x + sum_k (ln x)^k / (k k!) for float64 values in (1, exp(15)]."""
    logarithm = torch.log(x)
    total = term = logarithm
    for k in range(2, N_TERMS):
        term = term * logarithm / k
        total = total + term / k
    return np.euler_gamma + torch.log(logarithm) + total
