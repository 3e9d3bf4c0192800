"""A stand-in for ``vllm serve`` where there is no GPU.

Same flags, endpoints, metric names, start-up lines, failure texts and exit codes as vLLM 0.32, with
its own memory and block arithmetic and a scheduler whose step times were measured on real cards.
It shares no code with ``parkade.sizing``: if it did, an error there would cancel out here.

Only the standard library is used, so that the image needs nothing but Python.
"""
