"""Reading ``config.json``: which caches each layer of a model keeps."""

from parkade.sizing.architecture.model import ModelArchitecture, UnsupportedArchitecture
from parkade.sizing.architecture.parse import parse_architecture

__all__ = ["ModelArchitecture", "UnsupportedArchitecture", "parse_architecture"]
