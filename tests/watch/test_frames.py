"""Frames of other threads are looked at while these run on, and while garbage is collected."""

import gc
import subprocess
import sys
import threading

import pytest

from spmd_grid.watch.call_site import call_site, main_thread_call_site
from spmd_grid.watch.frames import look_at_frames, look_at_main_frame

# Threads call functions with frames of many sizes, and leave garbage whose destructors let other threads run.
HOSTILE = """
import gc, sys, threading, time
from spmd_grid.watch.clocks import stops_clocks
from spmd_grid.watch.frames import look_at_frames

left = [0]
class Garbage:
    def __init__(self):
        self.me = self
    def __del__(self):
        if left[0] and threading.current_thread() is threading.main_thread():
            left[0] -= 1
            time.sleep(0.0003)

functions = []
for k in range(60):
    body = "".join(f"    v{i} = 5\\n" for i in range(k % 17))
    names = {"functions": functions, "Garbage": Garbage}
    rest = f"    if n: return functions[(n * 31 + {k}) % 60](n - 1)\\n    Garbage()\\n    return 7"
    exec(f"def f(n):\\n{body}{rest}", names)
    functions.append(names["f"])

ends = False
def live(k):
    while not ends:
        k += 1
        functions[k % 60](k % 13)

threads = [threading.Thread(target=live, args=(k,), daemon=True) for k in range(2)]
for thread in threads:
    thread.start()
sys.setswitchinterval(1e-5)
gc.set_threshold(300)
until, looks = time.monotonic() + 2.5, 0
while time.monotonic() < until:
    left[0] = 5
    look_at_frames(lambda frames: [stops_clocks(frames[t.ident]) for t in threads if t.ident in frames])
    looks += 1
    time.sleep(0.0002)
ends = True
for thread in threads:
    thread.join()
print("looked", looks > 20, gc.get_threshold()[0])
"""


def test_threads_run_on_while_their_frames_are_looked_at():
    """Without care the process ends by a segmentation fault within a second, or finds numbers in place of frames."""
    run = subprocess.run([sys.executable, "-X", "faulthandler", "-c", HOSTILE], capture_output=True, text=True)
    assert (run.returncode, run.stdout) == (0, "looked True 300\n"), run.stderr


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="this Python collects garbage between instructions alone")
def test_no_collection_begins_while_frames_are_looked_at():
    begun = []

    def note(phase, info):
        begun.append(phase)

    def look(frames):
        assert look_at_frames(len) == len(frames)  # within another look
        return len([[i] for i in range(20_000)])

    before = gc.get_threshold()
    gc.callbacks.append(note)
    try:
        assert look_at_frames(look) == 20_000
        seen = [*begun]
    finally:
        gc.callbacks.remove(note)
    assert seen == [] and gc.get_threshold() == before


def test_a_look_that_fails_leaves_the_collector_as_it_was():
    before = gc.get_threshold()
    with pytest.raises(ZeroDivisionError):
        look_at_frames(lambda frames: 1 / 0)
    assert gc.get_threshold() == before


def test_the_main_thread_is_seen_from_others():
    found = []

    def look():
        found.append(look_at_main_frame(lambda frame: frame is not None))
        found.append(main_thread_call_site())

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert found[0] and ".py:" in found[1]


def test_the_call_site_of_a_thread_that_compiles():
    """It is the line that has called the compiler, whatever part of the library that calls in its turn."""
    compiler = {"__name__": "numba.core.compiler"}
    exec("def compiled(call, *args):\n    return call(*args)", compiler)

    def look():
        return call_site(sys._getframe())

    line = sys._getframe().f_lineno + 1
    assert compiler["compiled"](look) == f"test_frames.py:{line}"
