"""The operator's configuration: one YAML file, and the process' environment for the pod's own name.

Prometheus servers and the hub are named here; a resource only names one of them, so credentials
never go to an address from a resource.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

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


Address = Annotated[
    str,
    StringConstraints(
        pattern=r"^(\[[0-9A-Fa-f:.]{2,45}\]|[^\s:\[\]]*):[0-9]{1,5}$", max_length=262
    ),
]
"""`host:port`, `[IPv6]:port`, or `:port` for all addresses of both families."""


class SettingsError(Exception):
    """The configuration can't be used; the message names the file and the field."""


class _Model(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True
    )


class PrometheusSettings(_Model):
    """One Prometheus (or Thanos, Mimir, VictoriaMetrics) that resources may name."""

    name: DnsLabel = "default"
    """What `workload.prometheusRef.name` says."""
    url: HttpUrl
    """Without `/api/v1`."""
    tenant: Annotated[str, StringConstraints(max_length=256, pattern=r"^[!-~]*$")] = ""
    """Value of the tenant header; empty: none is sent."""
    tenant_header: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9-]{1,64}$")] = (
        "X-Scope-OrgID"
    )
    bearer_token_file: str = ""
    """Read anew for each request, since tokens rotate."""
    ca_file: str = ""
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
            tenant=self.tenant or None,
            token_file=Path(self.bearer_token_file) if self.bearer_token_file else None,
            ca_file=Path(self.ca_file) if self.ca_file else None,
            timeout_seconds=self.timeout_seconds,
        )

    def scope(
        self,
        window_seconds: int,
        namespaces: tuple[str, ...],
        target: tuple[str, str] | None = None,
    ) -> vllm_metrics.Scope:
        """Return what to ask of this server for a window; `target`: one Deployment's pods."""
        if target is not None:
            return vllm_metrics.DeploymentScope(
                window_seconds=window_seconds,
                scrape_interval_seconds=self.scrape_interval_seconds,
                endpoint_label=self.endpoint_label,
                namespaces=(target[0],),
                deployment=target[1],
            )
        return vllm_metrics.Scope(
            window_seconds=window_seconds,
            scrape_interval_seconds=self.scrape_interval_seconds,
            endpoint_label=self.endpoint_label,
            namespaces=namespaces,
        )


class HubSettings(_Model):
    """The model hub."""

    url: HttpUrl | Literal[""] = "https://huggingface.co"
    """Empty: none is asked; every resource names a ConfigMap and a weights size."""


class OperatorSettings(_Model):
    """How the operator runs."""

    namespaces: tuple[DnsLabel, ...] = ()
    """Which to look at; empty: all."""
    prometheus: Annotated[tuple[PrometheusSettings, ...], Field(max_length=64)] = ()
    """Servers; the one named `default` is for resources that name none."""
    hub: HubSettings = HubSettings()
    max_concurrent_rollouts: Annotated[int, Field(ge=1, le=1000)] = 1
    """Endpoints that tuning may touch at a time in the cluster."""
    workers: Annotated[int, Field(ge=1, le=64)] = 4
    """Endpoints that are worked on at a time."""
    resync_seconds: Annotated[float, Field(ge=5, le=86_400)] = 300.0
    """Every endpoint is looked at at least this often."""
    evaluation_seconds: Annotated[float, Field(ge=1, le=86_400)] = 60.0
    """How often the traffic is read."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    health_address: Address = ":8080"
    """Where /healthz and /readyz are."""
    metrics_address: Address = ":9090"
    """Where /metrics is."""
    lease_name: DnsLabel = "parkade"
    """Of the Lease in the operator's own namespace."""

    @field_validator("prometheus")
    @classmethod
    def _distinct(cls, value: tuple[PrometheusSettings, ...]) -> tuple[PrometheusSettings, ...]:
        names = [one.name for one in value]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"the name {twice[0]!r} stands twice")
        return value

    def server(self, name: str) -> PrometheusSettings | None:
        """Return the Prometheus of that name."""
        return next((one for one in self.prometheus if one.name == name), None)


def host_and_port(address: str) -> tuple[str, int]:
    """Split an address; an empty host means all addresses."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


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
