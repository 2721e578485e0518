"""The fake NVML, compiled once a session."""

from tests.trees.nvml import fake_nvml

__all__ = ["fake_nvml"]
