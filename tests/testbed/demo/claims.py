"""What the demo claims, each checked against the cluster itself."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence, whether it held, and what was seen."""

    sentence: str
    held: bool
    seen: str


@dataclass(slots=True)
class Claims:
    """All of a run, in order."""

    made: list[Claim] = field(default_factory=list)

    def check(self, sentence: str, held: object, seen: object = "") -> bool:
        """Note a claim; returns whether it held."""
        self.made.append(Claim(sentence, bool(held), str(seen)))
        return bool(held)

    @property
    def failed(self) -> list[Claim]:
        """Those that did not hold."""
        return [claim for claim in self.made if not claim.held]
