"""Other parties over HTTP, translated: the cluster, Prometheus, engines, the model hub."""
