"""Benchmark of pages: ``make bench-web``. The exit status is 1 if one of two measurements misses its limit.

The first measures the service's time for each page of a search with 100,000 trials (`tests.bench.pages`). The second
watches a page in Chromium while a hundred trials per second end (`tests.bench.web_stream`).
"""

import sys

from tests.bench import pages, web_stream


def main() -> int:
    missed = {"a page took too long": pages.main(), "the watched page fell behind": web_stream.main()}
    told = [what for what, failed in missed.items() if failed]
    print(f"missed: {', '.join(told)}" if told else "no limit is missed")
    return int(bool(told))


if __name__ == "__main__":
    sys.exit(main())
