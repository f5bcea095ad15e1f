"""Benchmarks and their load generators; imported by nothing else."""
