"""Devices and seeds."""

import random

import numpy as np
import pytest
import torch
from _helpers import global_states

from skhash._validation import resolve_device
from skhash.engine.runtime import generator_states, restore_generators, seeded

CPU = torch.device("cpu")


def draw():
    return torch.rand(2).tolist(), np.random.rand(2).tolist(), random.random()  # noqa: NPY002


def test_devices():
    assert resolve_device("cpu") == CPU
    assert resolve_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")


@pytest.mark.parametrize("device", ["cuda:99", "gpu", "", "mps:7"])
def test_a_device_that_is_not_there(device):
    with pytest.raises(
        ValueError, match=rf"`device` must be available, one of \['auto', 'cpu'.*\]\. Got '{device}' instead"
    ):
        resolve_device(device)


def test_a_seed_decides_all_generators_and_leaves_them_alone():
    before = global_states()
    draws = []
    for seed in (1, 1, 2):
        with seeded(seed, CPU):
            draws.append(draw())
        assert global_states() == before
    assert draws[0] == draws[1]
    assert all(a != b for a, b in zip(draws[0], draws[2], strict=True))


@pytest.mark.parametrize("deterministic", [False, True])
def test_generators_and_flags_are_restored_after_an_error(deterministic):
    before = global_states()

    def interrupted():
        with seeded(0, CPU, deterministic):
            assert torch.are_deterministic_algorithms_enabled() == deterministic
            draw()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert global_states() == before
    assert not torch.are_deterministic_algorithms_enabled()


def test_seeding_a_body_on_the_cpu_touches_no_gpu(monkeypatch):
    seeds = []
    monkeypatch.setattr(torch.cuda, "manual_seed_all", seeds.append)
    with seeded(0, CPU):
        torch.rand(3)
    assert seeds == []


@pytest.mark.parametrize("deterministic", [True, False])
@pytest.mark.parametrize("mode", ["default", "warn", "error"])
def test_the_users_deterministic_mode_is_left_alone(mode, deterministic):
    torch.set_deterministic_debug_mode(mode)
    try:
        before = torch.get_deterministic_debug_mode()
        with seeded(0, CPU, deterministic):
            assert torch.get_deterministic_debug_mode() == (2 if deterministic else before)
        assert torch.get_deterministic_debug_mode() == before
    finally:
        torch.set_deterministic_debug_mode("default")


def test_generators_of_a_gpu_are_restored_without_one():
    states = generator_states(CPU)
    numbers = torch.rand(3)
    restore_generators(states | {"cuda": states["torch"]}, CPU)  # of a checkpoint that was written on a GPU
    assert torch.equal(torch.rand(3), numbers)
