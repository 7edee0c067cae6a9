"""`python -m headrace.cli`: the `headrace` command where its script isn't on the path."""

import sys

from headrace.cli import main

if __name__ == "__main__":
    sys.exit(main())
