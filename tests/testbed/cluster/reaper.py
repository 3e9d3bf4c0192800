"""The first process of the node's PID namespace: waits for orphans, does nothing else.

Containers' shims become orphans by design; without somebody who waits for them each deleted pod
would leave a zombie. It runs as a plain script: `python -S -E reaper.py`.
"""

import os
import signal


def main() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    while True:
        signal.sigwait({signal.SIGCHLD})
        _reap()


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


if __name__ == "__main__":
    main()
