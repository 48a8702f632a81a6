"""The scheduler of simulated ranks by itself: when it knows that nobody can go on."""

import threading
import time

from simulated_runs import MODES

from spmd_grid.errors import DeadlockError
from spmd_grid.transport.simulated.scheduler import RankStopped, RankWait, Scheduler


@MODES
def test_the_last_rank_that_ran_ends(seed):
    """Ranks 0 and 1 wait for one another, neither for rank 2: its end is when nobody can go on any more."""
    scheduler, waiting = Scheduler(3, seed), set()

    def ready(rank):
        waiting.add(rank)
        return False

    def waits(rank):
        try:
            scheduler.begin(rank)
            scheduler.wait(rank, RankWait(lambda: ready(rank), lambda: "recv", lambda: [1 - rank]), lambda: None)
        except RankStopped:
            pass

    def ends():
        scheduler.begin(2)
        while len(waiting) < 2:
            scheduler.switch(2)
            time.sleep(0.001)
        scheduler.end(2)

    ranks = [threading.Thread(target=waits, args=(rank,), daemon=True) for rank in range(2)]
    ranks.append(threading.Thread(target=ends, daemon=True))
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join(5)
    found = scheduler.failure
    scheduler.stop(KeyboardInterrupt())  # lets go of those that wait still
    assert type(found) is DeadlockError and scheduler.failed_rank is None
    assert str(found).splitlines()[1:] == [
        "  rank 0 waits in recv for rank 1",
        "  rank 1 waits in recv for rank 0",
        "  rank 2 has ended",
    ]
