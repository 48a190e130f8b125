"""Shallow hashers: linear maps, kernels, graphs and spheres. One paper, one file."""
