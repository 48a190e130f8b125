"""The objective of DTSH: the likelihood of triplets. See the equations in dtsh.py."""

import torch
from torch.nn.functional import softplus

from skhash.affinity import Relevance
from skhash.hashers.deep._objectives import QuantizedObjective

_MAX_TRIPLETS = 2**22  # of a batch: the differences of theta take 16 MiB


class DTSHObjective(QuantizedObjective):
    """Mean likelihood of at most `max_triplets` triplets of a batch, and the squared penalty of its activations."""

    def __init__(
        self,
        quantization_weight: float,
        margin: float,
        max_triplets: int = _MAX_TRIPLETS,
    ) -> None:
        super().__init__(quantization_weight)
        self.margin, self.max_triplets = margin, max_triplets

    def data_loss(self, u: torch.Tensor, relevance: Relevance) -> torch.Tensor:
        """Mean over triplets of softplus(margin - theta_qp + theta_qn), 0 without triplets."""
        index, _ = relevance.levels()
        similar = torch.from_numpy(index > 0).to(u.device)
        query, positive = torch.nonzero(similar.clone().fill_diagonal_(False), as_tuple=True)
        n_pairs = max(1, self.max_triplets // len(u))
        if len(query) > n_pairs:
            drawn = torch.randperm(len(query))[:n_pairs].to(u.device)
            query, positive = query[drawn], positive[drawn]
        theta = u @ u.T / 2
        # one row per pair (q, p), one column per sample n: triplets are not listed
        losses = softplus(self.margin - theta[query, positive][:, None] + theta[query])
        valid = ~similar.fill_diagonal_(True)[query]
        return torch.where(valid, losses, 0.0).sum() / valid.sum().clamp_min(1)
