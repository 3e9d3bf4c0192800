"""A Kubernetes client against a server of the test."""

import kubernetes

from parkade.adapters.cluster import Cluster


def cluster_at(url, **timeouts):
    """A client that logs in with a token and sends each call once."""
    configuration = kubernetes.client.Configuration()
    configuration.host = url
    configuration.retries = False
    configuration.api_key["BearerToken"] = "secret"
    configuration.api_key_prefix["BearerToken"] = "Bearer"
    return Cluster(kubernetes.client.ApiClient(configuration), **timeouts)
