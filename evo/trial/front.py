"""The Pareto front of figures of which less is better."""

from collections.abc import Sequence


def front(points: Sequence[tuple[float, float]]) -> frozenset[int]:
    """Return the places of the points of the Pareto front, where less is better in both coordinates."""
    found, least, earlier = set[int](), float("inf"), None
    for index in sorted(range(len(points)), key=points.__getitem__):
        if points[index][1] < least or points[index] == earlier:
            found.add(index)
            least, earlier = points[index][1], points[index]
    return frozenset(found)
