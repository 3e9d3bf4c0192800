"""A Kubernetes client against a server of the test."""

import kubernetes

from parkade.adapters.cluster import Cluster
from support.servers import Reply, serving


def cluster_at(url, **timeouts):
    """A client that logs in with a token and sends each call once."""
    configuration = kubernetes.client.Configuration()
    configuration.host = url
    configuration.retries = False
    configuration.api_key["BearerToken"] = "secret"
    configuration.api_key_prefix["BearerToken"] = "Bearer"
    return Cluster(kubernetes.client.ApiClient(configuration), **timeouts)


def call(work, *replies):
    """Do something with a cluster that gives these replies in turn; return result and requests."""
    left = list(replies)
    with serving(lambda _asked: left.pop(0) if len(left) > 1 else left[0]) as served:
        return work(cluster_at(served.url)), served.asked


def status(code, message, **headers):
    """A refusal as the API server words it."""
    return Reply(code, {"kind": "Status", "code": code, "message": message}, headers)
