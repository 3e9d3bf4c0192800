"""A throw-away Kubernetes cluster of real components, on this machine."""
