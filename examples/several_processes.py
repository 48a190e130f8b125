"""A hasher that several processes train together.

    torchrun --nproc-per-node 2 examples/several_processes.py
    python examples/several_processes.py    # the same training in one process

torchrun is part of torch. The process group is all that the hasher needs: its fit runs the backbone
on a part of each batch in each process. Every process reads the same samples, best from a memmap.
If you start the script again, it continues from the checkpoint.
"""

import argparse
import os

import torch
import torch.distributed as dist
from skhash import TALRHasher
from skhash.persistence import save
from sklearn.datasets import load_digits


def main():
    """Train, and let the first process store the hasher."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", default="several_processes")
    folder = parser.parse_args().folder
    if "RANK" in os.environ:  # torchrun sets it
        has_gpu = torch.cuda.is_available()
        if has_gpu:
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("nccl" if has_gpu else "gloo")

    X, y = load_digits(return_X_y=True)
    hasher = TALRHasher(
        32, backbone="mlp", n_epochs=10, checkpoint=folder, random_state=0
    )
    hasher.fit(X[:1000], y[:1000], resume=True)

    if not dist.is_initialized() or dist.get_rank() == 0:
        print(f"AP of the other samples: {hasher.score(X[1000:], y[1000:]):.3f}")
        save(hasher, os.path.join(folder, "hasher.safetensors"))
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
