"""Page benchmark: `make bench-web`. Exits with 1 if a limit is missed, after both parts.

First the service's time for each page of a search with 100,000 trials (`tests.bench.pages`), then a watched page while
a hundred trials end every second (`tests.bench.web_stream`), which needs Chromium.
"""

import sys

from tests.bench import pages, web_stream


def main() -> int:
    missed = {"a page took too long": pages.main(), "the watched page fell behind": web_stream.main()}
    told = [what for what, failed in missed.items() if failed]
    print(f"missed: {', '.join(told)}" if told else "every limit holds")
    return int(bool(told))


if __name__ == "__main__":
    sys.exit(main())
