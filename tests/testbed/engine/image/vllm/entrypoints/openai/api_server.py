"""`python -m vllm.entrypoints.openai.api_server --model MODEL [options]`, the older entry."""

import os
import sys

from testbed.engine.__main__ import main

if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)
