"""`python -m testbed.demo [--keep]`: set everything up, tell the story, check every claim."""

import argparse
import sys
import time

from testbed.cluster import binaries
from testbed.cluster.errors import TestbedError
from testbed.demo.screen import Screen
from testbed.demo.story import play
from testbed.demo.world import World, build_images


def main() -> int:
    """0 only if all of the story happened."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--keep", action="store_true", help="leave the cluster up at the end")
    parser.add_argument("--build", action="store_true", help="only build what is missing")
    arguments = parser.parse_args()
    if arguments.build:
        return _build()
    keep = arguments.keep
    screen, began = Screen(), time.monotonic()
    screen.chapter("Setting up a real node, Prometheus and the images")
    try:
        with World.started(keep=keep) as world:
            screen.say(f"Ready after {time.monotonic() - began:.0f} s.")
            claims = play(world, screen)
            if keep:
                _tell_how_to_use(screen, world)
    except TestbedError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Interrupted; nothing is left behind", file=sys.stderr)
        return 130
    return 1 if claims.failed else 0


def _build() -> int:
    """Programs and images into the cache, with progress."""
    try:
        binaries.ensure(binaries.NODE)
        build_images()
    except TestbedError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _tell_how_to_use(screen: Screen, world: World) -> None:
    screen.chapter("The cluster stays up")
    screen.type(f"export KUBECONFIG={world.node.kubeconfig}")
    screen.type(f"alias kubectl={binaries.ensure(['kubectl'])['kubectl']}")
    screen.say(f"Prometheus: {world.prometheus.url}. End it all with: make down")


if __name__ == "__main__":
    sys.exit(main())
