"""`python -m parkade`: the same as the command `parkade`."""

import sys

from parkade.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
