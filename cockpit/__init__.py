"""The cockpit of one GPU machine. Import-free, so that `cockpit --version` costs nothing."""

__version__ = "0.1.0"
