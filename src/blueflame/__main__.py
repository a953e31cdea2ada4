"""`python -m blueflame` is `blueflame`."""

from blueflame.cli.main import main

if __name__ == "__main__":
    main()
