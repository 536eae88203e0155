"""Which nodes of a model have to stay float: the search behind ``convert_model(..., inputs=...)``."""

from __future__ import annotations

from collections.abc import Callable, Sequence


class Budget(Exception):
    """No run is left."""


class Search:
    """Looks for few nodes that are enough, where more of them are never worse.

    ``passes`` tells whether a set is enough. A set is asked for once.
    """

    def __init__(self, passes: Callable[[frozenset[int]], bool], runs: int) -> None:
        self._passes = passes
        self._left = runs
        self._known: dict[frozenset[int], bool] = {}
        #: The smallest set that is enough, of those that were asked for.
        self.best: frozenset[int] | None = None

    def is_enough(self, nodes: frozenset[int]) -> bool:
        if nodes not in self._known:
            if self._left == 0:
                raise Budget
            self._left -= 1
            self._known[nodes] = self._passes(nodes)
        if self._known[nodes] and (self.best is None or len(nodes) < len(self.best)):
            self.best = nodes
        return self._known[nodes]

    def run(self, nodes: Sequence[int]) -> frozenset[int] | None:
        """A set that is enough; ``None`` where not even all are. The first nodes are those that are suspected most."""
        try:
            count = 1
            while not self.is_enough(frozenset(nodes[:count])):
                if count >= len(nodes):
                    return None
                count *= 2
            self.is_enough(self._least(frozenset(), False, list(nodes[:count])))
        except Budget:
            # What is known to be enough stays, however large it is.
            if self.best is None:
                everything = frozenset(nodes)
                return everything if self._passes(everything) else None
        return self.best

    def _least(self, kept: frozenset[int], is_new: bool, nodes: list[int]) -> frozenset[int]:
        """The fewest of ``nodes`` that are enough with those kept, none of which can be left out: by halves, so that each
        node that is needed costs about as many runs as the number of nodes has bits."""
        if is_new and self.is_enough(kept):
            return frozenset()
        if len(nodes) == 1:
            return frozenset(nodes)
        half = len(nodes) // 2
        first, second = nodes[:half], nodes[half:]
        of_second = self._least(kept | set(first), True, second)
        of_first = self._least(kept | of_second, bool(of_second), first)
        return of_first | of_second
