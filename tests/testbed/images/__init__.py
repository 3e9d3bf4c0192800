"""Container images without a Docker engine: a Debian base, a Dockerfile built on it, archives."""
