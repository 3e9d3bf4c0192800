"""Only what stands for vLLM's older way to start its server."""
