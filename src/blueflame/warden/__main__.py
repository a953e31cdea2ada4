"""`python -m blueflame.warden DIR`: run, or finish, the attempt whose folder is DIR."""

import sys

from blueflame.warden.main import main

if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
