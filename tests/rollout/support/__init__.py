"""Equipment of the rollout tests: a small pure model of a cluster with one endpoint in it."""
