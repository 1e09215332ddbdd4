"""``python -m gainful`` is the command line."""

from gainful.cli import main

if __name__ == "__main__":
    main()
