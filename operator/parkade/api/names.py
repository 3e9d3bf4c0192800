"""Every name that other parties see: group, labels, annotations, field manager.

One place, so that a label in a selector, in a manifest and in a Prometheus query cannot differ.
"""

GROUP = "serving.parkade.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "InferenceEndpoint"
PLURAL = "inferenceendpoints"
SINGULAR = "inferenceendpoint"
SHORT_NAME = "iep"

FIELD_MANAGER = "parkade"
"""The one server-side-apply manager of children and status."""

ENDPOINT_LABEL = f"{GROUP}/endpoint"
"""On engine pods and children: the name of their InferenceEndpoint. Stable; selectors use it."""

REVISION_LABEL = f"{GROUP}/revision"
"""On engine pods and ReplicaSets: short hash of the rendered pod template."""

SETTINGS_ANNOTATION = f"{GROUP}/settings"
"""On pod templates: the two knobs as JSON, so that pods tell what they run."""

FINGERPRINT_ANNOTATION = f"{GROUP}/fingerprint"
"""On pod templates: hash of all that a measured memory figure depends on, the knobs left out."""

RENDERER_ANNOTATION = f"{GROUP}/renderer"
"""On pod templates: version of the rendering rules that made it (an upgrade restarts no pod)."""

GENERATION_ANNOTATION = f"{GROUP}/generation"
"""On pod templates' Deployment: generation of the spec that the template was rendered from."""

INPUTS_ANNOTATION = f"{GROUP}/inputs"
"""On the Deployment: hash of the spec's parts that its pod template was rendered from."""

RETRY_ANNOTATION = f"{GROUP}/retry"
"""On the resource, by a person: `<hash>` of a quarantined setting to try again, then free text."""

ENGINE_CONTAINER = "vllm"
"""The engine's container in every engine pod."""

HTTP_PORT_NAME = "http"
HTTP_PORT = 8000

MAX_GENERATED_BASE = 58
"""What is kept of `<owner>-` in a generated name, five characters follow
(apiserver/pkg/storage/names/generate.go)."""

MAX_NAME_LENGTH = 50
"""Of an InferenceEndpoint: leaves room for the suffixes of ReplicaSets and pods within 63."""


def generated_base(owner: str) -> str:
    """Return how the names begin that Kubernetes generates for the children of an object."""
    return f"{owner}-"[:MAX_GENERATED_BASE]
