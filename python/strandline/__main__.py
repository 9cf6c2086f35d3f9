"""`python -m strandline`: the command line."""

import os
import sys


def main() -> None:
    command = os.path.join(os.path.dirname(__file__), "strandline")
    os.execv(command, ["strandline", *sys.argv[1:]])


if __name__ == "__main__":
    main()
