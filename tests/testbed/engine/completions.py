"""What a completion asks for, and the shapes of its answers.

Beside OpenAI's fields three are understood that only the simulation has:
`prompt_token_count` (instead of a prompt of that length), `cached_prompt_token_count` (how much of
it is in the prefix cache) and `output_token_count` (where the model stops by itself);
`omit_text: true` leaves the words out of the answer.
"""

import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

WORD = " tok"


class BadRequestError(ValueError):
    """The request cannot be served; `status` and `kind` say how."""

    def __init__(self, message: str, status: int = 400, kind: str = "BadRequestError") -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind

    def body(self) -> dict[str, Any]:
        """As vLLM answers."""
        return {
            "error": {
                "message": str(self),
                "type": self.kind,
                "param": None,
                "code": self.status,
            }
        }


@dataclass(frozen=True, slots=True)
class Completion:
    """A checked request; lengths in tokens."""

    model: str
    prompt_tokens: int
    output_tokens: int
    max_tokens: int
    cached_tokens: int
    stream: bool
    include_usage: bool
    omit_text: bool
    identifier: str
    created: int

    def text(self, tokens: int) -> str:
        """So many words."""
        return "" if self.omit_text else WORD * tokens

    def answer(self, tokens: int, finish_reason: str) -> dict[str, Any]:
        """The whole answer at once."""
        return {**self._frame(self.text(tokens), finish_reason), "usage": self.usage(tokens)}

    def chunk(self, tokens: int, finish_reason: str | None) -> dict[str, Any]:
        """One piece of a stream."""
        return self._frame(self.text(tokens), finish_reason)

    def usage(self, tokens: int) -> dict[str, int]:
        """Counts of tokens."""
        return {
            "prompt_tokens": self.prompt_tokens,
            "total_tokens": self.prompt_tokens + tokens,
            "completion_tokens": tokens,
        }

    def usage_chunk(self, tokens: int) -> dict[str, Any]:
        """The last piece of a stream that asked for usage."""
        return {**self._frame("", None), "choices": [], "usage": self.usage(tokens)}

    def _frame(self, text: str, finish_reason: str | None) -> dict[str, Any]:
        choice = {
            "index": 0,
            "text": text,
            "logprobs": None,
            "finish_reason": finish_reason,
            "stop_reason": None,
        }
        return {
            "id": self.identifier,
            "object": "text_completion",
            "created": self.created,
            "model": self.model,
            "choices": [choice],
        }


def parse(body: object, served_names: tuple[str, ...], max_model_len: int) -> Completion:
    """Check a request's body; raises BadRequestError in vLLM's words."""
    if not isinstance(body, Mapping):
        raise BadRequestError("The body must be a JSON object.")
    model = body.get("model") or served_names[0]
    if model not in served_names:
        raise BadRequestError(f"The model `{model}` does not exist.", 404, "NotFoundError")
    prompt = _prompt_tokens(body)
    room = max_model_len - prompt
    if room < 1:
        raise BadRequestError(
            f"This model's maximum context length is {max_model_len} tokens. However, your prompt "
            f"contains {prompt} input tokens, which exceeds this limit even without any output "
            "tokens. Please reduce the length of the input prompt."
        )
    max_tokens = _count(body, "max_tokens", default=16, least=1)
    if max_tokens > room:
        raise BadRequestError(
            f"This model's maximum context length is {max_model_len} tokens. However, you "
            f"requested {max_tokens} output tokens and your prompt contains {prompt} input "
            f"tokens, for a total of {prompt + max_tokens} tokens. Please reduce the length of "
            "the input prompt or the number of requested output tokens."
        )
    wanted = _count(body, "output_token_count", default=max_tokens, least=1)
    options = body.get("stream_options") or {}
    return Completion(
        model=str(model),
        prompt_tokens=prompt,
        output_tokens=max_tokens if body.get("ignore_eos") else min(wanted, max_tokens),
        max_tokens=max_tokens,
        cached_tokens=min(_count(body, "cached_prompt_token_count", default=0), prompt),
        stream=bool(body.get("stream")),
        include_usage=isinstance(options, Mapping) and bool(options.get("include_usage")),
        omit_text=bool(body.get("omit_text")),
        identifier=f"cmpl-{uuid.uuid4().hex}",
        created=int(time.time()),
    )


def _prompt_tokens(body: Mapping[str, Any]) -> int:
    """A word of a string is one token, and so is an entry of a list of token ids."""
    if "prompt_token_count" in body:
        return _count(body, "prompt_token_count", default=1, least=1)
    prompt = body.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str | list):
        prompt = prompt[0]
    if isinstance(prompt, str):
        return max(len(prompt.split()), 1)
    if isinstance(prompt, list) and prompt and all(type(token) is int for token in prompt):
        return len(prompt)
    raise BadRequestError(
        "prompt must be a string or a list of token ids (one prompt in one request)."
    )


def _count(body: Mapping[str, Any], name: str, default: int, least: int = 0) -> int:
    value = body.get(name)
    if value is None:
        return default
    if type(value) is not int or value < least:
        raise BadRequestError(f"{name} must be an integer of at least {least}, got {value!r}.")
    return value
