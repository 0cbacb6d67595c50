"""Benchmark of pages: ``make bench-web``. The exit status is 1 if one of two measurements misses its limit.

The first measurement is the service's time for each page of a search with 100,000 trials (`tests.bench.pages`). The
second is the delay of a page in Chromium while a hundred trials per second end (`tests.bench.web_stream`).
"""

import sys

from tests.bench import pages, web_stream


def main() -> int:
    missed = {"time of a page": pages.main(), "delay of the watched page": web_stream.main()}
    told = [what for what, failed in missed.items() if failed]
    print(f"missed limits: {', '.join(told)}" if told else "no limit is missed")
    return int(bool(told))


if __name__ == "__main__":
    sys.exit(main())
