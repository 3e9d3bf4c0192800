"""Parkade sizes vLLM deployments on Kubernetes from the traffic they really get."""

__version__ = "0.1.0"
