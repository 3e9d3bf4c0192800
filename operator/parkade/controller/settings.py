"""The operator's configuration: one YAML file, and the process' environment for the pod's own name.

Prometheus servers and the hub are named here; a resource only names one of them, so credentials
never go to an address from a resource.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    field_validator,
)
from pydantic.alias_generators import to_camel

from parkade.adapters import prometheus, vllm_metrics

MAX_FILE_BYTES = 1024 * 1024

HttpUrl = Annotated[str, StringConstraints(pattern=r"^https?://[^\s@]+$", max_length=2048)]
"""Without a password in it: that belongs into a token file."""
DnsLabel = Annotated[
    str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63)
]


class SettingsError(Exception):
    """The configuration can't be used; the message names the file and the field."""


class _Model(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True
    )


class PrometheusSettings(_Model):
    """One Prometheus (or Thanos, Mimir, VictoriaMetrics) that resources may name."""

    url: HttpUrl
    """Without `/api/v1`."""
    tenant: Annotated[str, StringConstraints(max_length=256)] | None = None
    """Value of the tenant header; none is sent without it."""
    tenant_header: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9-]{1,64}$")] = (
        "X-Scope-OrgID"
    )
    token_file: Path | None = None
    """Bearer token, read anew for each request, since it rotates."""
    ca_file: Path | None = None
    timeout_seconds: Annotated[float, Field(gt=0, le=300)] = 30.0
    scrape_interval_seconds: Annotated[int, Field(ge=1, le=300)] = 15
    """How often this server scrapes engine pods."""
    endpoint_label: Annotated[str, StringConstraints(pattern=r"^[a-zA-Z_][a-zA-Z0-9_]*$")] = (
        vllm_metrics.DEFAULT_ENDPOINT_LABEL
    )
    """Label of the metrics that carries the pod label `serving.parkade.dev/endpoint`."""

    @property
    def server(self) -> prometheus.Server:
        """The same for the adapter."""
        return prometheus.Server(
            url=self.url,
            tenant_header=self.tenant_header,
            tenant=self.tenant,
            token_file=self.token_file,
            ca_file=self.ca_file,
            timeout_seconds=self.timeout_seconds,
        )

    def scope(self, window_seconds: int, namespaces: tuple[str, ...]) -> vllm_metrics.Scope:
        """Return what to ask of this server for a window."""
        return vllm_metrics.Scope(
            window_seconds=window_seconds,
            scrape_interval_seconds=self.scrape_interval_seconds,
            endpoint_label=self.endpoint_label,
            namespaces=namespaces,
        )


class HubSettings(_Model):
    """The model hub."""

    url: HttpUrl = "https://huggingface.co"
    enabled: bool = True
    """False: nothing is asked; every resource names a ConfigMap and a weights size."""


class OperatorSettings(_Model):
    """How the operator runs."""

    namespaces: tuple[DnsLabel, ...] = ()
    """Which to look at; empty: all."""
    prometheus: dict[DnsLabel, PrometheusSettings] = Field(default_factory=dict)
    """Servers by name; `default` is what resources use that name none."""
    hub: HubSettings = HubSettings()
    max_concurrent_rollouts: Annotated[int, Field(ge=1, le=1000)] = 1
    """Endpoints that tuning may touch at a time in the cluster."""
    workers: Annotated[int, Field(ge=1, le=64)] = 4
    """Endpoints that are worked on at a time."""
    resync_seconds: Annotated[float, Field(ge=5, le=86_400)] = 300.0
    """Every endpoint is looked at at least this often."""
    evaluation_seconds: Annotated[float, Field(ge=1, le=86_400)] = 60.0
    """How often the traffic is read."""
    listen: Annotated[str, StringConstraints(pattern=r"^[^\s:]*:[0-9]{1,5}$")] = "0.0.0.0:8080"
    """Address of /metrics, /readyz and /livez."""
    lease_namespace: DnsLabel | None = None
    """Where the Lease is; absent: no lease is taken (one process is started by hand)."""
    lease_name: DnsLabel = "parkade"

    @field_validator("prometheus")
    @classmethod
    def _few(cls, value: dict[str, Any]) -> dict[str, Any]:
        if len(value) > 64:
            raise ValueError("at most 64 servers")
        return value

    @property
    def listen_address(self) -> tuple[str, int]:
        """Host and port."""
        host, _, port = self.listen.rpartition(":")
        return host, int(port)


def load_settings(path: Path | None) -> OperatorSettings:
    """Read the configuration file; without one all defaults hold. Raises SettingsError."""
    if path is None:
        return OperatorSettings()
    try:
        text = path.read_bytes()[: MAX_FILE_BYTES + 1]
    except OSError as error:
        raise SettingsError(f"{path} can't be read: {error.strerror}. Give --config.") from error
    if len(text) > MAX_FILE_BYTES:
        raise SettingsError(f"{path} is larger than {MAX_FILE_BYTES} bytes")
    try:
        raw = yaml.safe_load(text)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise SettingsError(f"{path} is not YAML: {' '.join(str(error).split())}") from error
    return read_settings(raw, where=str(path))


def read_settings(raw: object, *, where: str = "configuration") -> OperatorSettings:
    """Return the configuration as a value. Raises SettingsError with the first wrong field."""
    if raw is None:
        return OperatorSettings()
    if not isinstance(raw, dict):
        raise SettingsError(f"{where}: expected keys with values, got {type(raw).__name__}")
    try:
        return OperatorSettings.model_validate(raw)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        raise SettingsError(f"{where}: {field}: {first['msg']}") from error
