"""Exchanges of boxes that are wrong."""

from spmd_grid.reshard.geometry.messages import Redistribution


class Lying(Redistribution):
    """A redistribution whose lists have been tampered with."""

    def tamper(self, which, change):
        object.__setattr__(self, "_changes", {**getattr(self, "_changes", {}), which: change})
        return self

    def _changed(self, which, found):
        change = getattr(self, "_changes", {}).get(which)
        return found if change is None else change(found)

    def receives(self, coords):
        return self._changed("receives", super().receives(coords)) if coords == (1, 1) else super().receives(coords)

    def sends(self, coords):
        return self._changed("sends", super().sends(coords)) if coords == (1, 1) else super().sends(coords)

    def kept_box(self, coords):
        return self._changed("kept", super().kept_box(coords)) if coords == (1, 1) else super().kept_box(coords)
