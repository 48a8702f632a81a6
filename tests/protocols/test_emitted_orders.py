"""Orders as LLVM is told them and emits them: release stores, acquire loads, and fences after streaming stores."""

import platform
import re

import pytest


@pytest.fixture(scope="module")
def passing():
    """The language of LLVM, not optimised for any processor, of a function that answers one word by another."""
    import numba

    from spmd_grid.kernels.address import load_acquire, store_release

    @numba.njit("void(int64, int64)")
    def passing(source, target):
        store_release(target, load_acquire(source))

    (text,) = passing.inspect_llvm().values()
    return text


def test_words_are_stored_with_release_and_loaded_with_acquire(passing):
    assert re.search(r"load atomic i64, .* acquire, align 8", passing)
    assert re.search(r"store atomic i64 .* release, align 8", passing)


def test_words_on_arm(passing):
    """The same function for 64-bit ARM, whose plain loads and stores keep no order."""
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    try:
        target = llvm.Target.from_triple("aarch64-unknown-linux-gnu")
    except RuntimeError:
        pytest.skip("this llvmlite compiles for no ARM")
    text = re.sub(r"^target (triple|datalayout).*$", "", passing, flags=re.M)
    code = target.create_target_machine(opt=2).emit_assembly(llvm.parse_assembly(text))
    assert re.search(r"\bldap?r\b", code) and re.search(r"\bstlr\b", code)


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="a fence of its own is needed on x86 alone")
def test_a_drain_is_a_fence_behind_streaming_stores():
    """The tests of protocols, which run the source of copies and folds, show that each has one in its place."""
    import numba

    from spmd_grid.kernels.copy.vectors import drain, lines_moved

    stream_line = lines_moved(1, True)

    @numba.njit("void(int64, int64)")
    def streamed(source, target):
        stream_line(source, target)
        drain()

    (code,) = streamed.inspect_asm().values()
    assert re.search(r"\bv?movnt.*\bsfence\b", code, flags=re.S)
