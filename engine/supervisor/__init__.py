"""Engines as processes: launched in sessions of their own, watched, restarted, ended without a trace."""
