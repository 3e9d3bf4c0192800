"""Real vLLM on a CPU: an environment of its own, tiny models, servers that run offline."""
