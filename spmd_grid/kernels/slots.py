"""The words by which a channel and its compiled course understand each other (see ``course.py``).

A *state* is one row of int64 words: the slots below, then one row per neighbour.  A *call* describes the arrays of one
exchange: the slots ``CALL_*``, then one row of ``FIELD_WORDS`` per field.
"""

from __future__ import annotations

from hashlib import blake2b

import numpy as np

# -- state ---------------------------------------------------------------------------------------------------------
EPOCH = 0  # exchanges begun so far
PHASE = 1  # of the exchange under way
CALL = 2  # address of the call under way
REFUSED = 3  # set before an exchange that this process cannot take part in
CULPRIT = 4  # the member that refused the last exchange, -1 if none did
LENDS = 5  # whether neighbours read this process's own arrays in the exchange under way
SENDING, COUNT_SENDING = 6, 49  # address and number of the handles by which it sends in the exchange under way
N_FIELDS = 7
LINES = 8  # address of this process's two lines: what it posts in even and odd exchanges
LINE_BYTES = 9
STAGING = 10  # address of this process's staging for even exchanges
STAGING_BYTES = 11  # from there to the staging for odd ones
N_SOURCES, SOURCES = 12, 13  # neighbours whose memory this process reads: how many, and the first word of their rows
N_READERS, READERS = 14, 15  # neighbours that read this process's memory
N_RECEIVES, RECEIVES = 16, 17  # neighbours that send messages
N_SENDS, SENDS = 18, 19  # neighbours that get messages
OWN, N_OWN = 20, 21  # rows of the table that copy from this process's own array: the first, and how many per field
FILL, N_FILL = 22, 23  # rows that copy from the constants
CONSTANTS = 24  # address of the constants
START_MESSAGES, TEST_MESSAGES = 25, 26  # addresses of MPI_Startall and MPI_Testall, or of their like
REQUESTS_IN, REQUESTS_OUT, REQUESTS_SHORT = 27, 28, 29  # addresses of request handles: receives, sends, sends of heads
COUNT_IN, COUNT_OUT, COUNT_SHORT = 30, 31, 32  # how many handles there are
STATUSES, FLAG = 33, 34  # where MPI_Testall may write
ON_WAIT, ON_POST = 35, 36  # functions to call in a long wait, and after each post (0: none)
POLLS, YIELDS = 37, 38  # how often to look before giving way to others, and before calling ON_WAIT
COURSE, COPY = 39, 48  # addresses of the compiled course itself, and of the compiled copies
LOOP_CALL = 40  # address of the call that compiled loops fill
SEGMENT, SEGMENT_BYTES = 41, 42  # the part of memory in which arrays can be lent: addresses become offsets there
REFUSE = 43  # function that a compiled loop calls when its arrays will not do
LOOPS_WELCOME = 44  # whether compiled loops may use it
ARRAY_DATA, ARRAY_FLAGS = 45, 46  # where in an array object its address and its flags are
NDIM, EXTENTS = 47, 50  # the local shape that compiled loops must bring; up to MOST_DIMS extents
MOST_DIMS = 32
HEADER_WORDS = EXTENTS + MOST_DIMS

IDLE, BEGUN, ARRIVED, LEFT = 0, 1, 2, 3

# -- a source: a neighbour whose memory this process reads ---------------------------------------------------------
SOURCE_WORDS = 8
S_LINES = 0  # address of its two lines
S_LINE_BYTES = 1
S_SEGMENT = 2  # address to which the offsets it posts are relative
S_STAGING = 3  # address of what it stages for this process in even exchanges
S_STAGING_BYTES = 4  # from there to that for odd ones
S_DONE = 5  # address of the word in which this process tells it that it has read
S_ROWS = 6  # first row of the table that copies from its array; those that copy from its staging follow
S_PIECES = 7  # rows per field, of each kind

# -- a reader: a neighbour that reads this process's memory --------------------------------------------------------
READER_WORDS = 5
R_DONE = 0  # address of the word in which it tells that it has read
R_STAGED = 1  # whether it always reads staging
R_ONE_WAY = 2  # whether this process reads nothing from it
R_ROWS = 3  # first row of the table that stages for it
R_PIECES = 4  # rows per field

# -- a neighbour by messages; same for both directions -------------------------------------------------------------
MESSAGE_WORDS = 3
M_BUFFER = 0  # address of the message: MESSAGE_HEAD bytes, then the cells
M_ROWS = 1
M_PIECES = 2
MESSAGE_HEAD = 64

# -- what a process posts for one exchange, in memory or at the head of messages -----------------------------------
POSTED_EPOCH = 0
POSTED_REFUSED = 1
POSTED_UNCHANGED = 2  # bit f: field f is as it was when it was last sent
POSTED_OFFSETS = 3  # per field: where it lies in the process's segment; -1: in staging

# -- a call --------------------------------------------------------------------------------------------------------
CALL_TABLE, CALL_ROWS, CALL_COLUMNS = 0, 1, 2  # the copy table for these arrays
CALL_UNCHANGED = 3  # as POSTED_UNCHANGED
CALL_REQUESTS, CALL_COUNT = 4, 5  # handles of sends straight from the arrays; 0: pack
CALL_FIELDS = 6
FIELD_WORDS = 4
F_ADDRESS = 0
F_OFFSET = 1  # in this process's segment, or -1
F_OBJECT = 2  # the array object, to see whether it still lies there and may be written; 0: nobody looks

F_DTYPE = 3  # in the call of compiled loops: the dtype they must bring
MOST_FIELDS = 62  # bits of POSTED_UNCHANGED

# -- what a course does, and what came of it -----------------------------------------------------------------------
BEGIN, ARRIVE, LAND, LEAVE, PART = 1, 2, 4, 8, 16
FINISH = ARRIVE | LAND | LEAVE | PART
UPDATE = BEGIN | FINISH
POKE = 32
FINE, REFUSED_BY, ENDED, BUSY, CHANGED = 0, 1, 2, 3, 4

# -- why a compiled loop's array will not do -----------------------------------------------------------------------
WRONG_COUNT, WRONG_DTYPE, WRONG_SHAPE, NOT_CONTIGUOUS, READ_ONLY, HAS_FUNCTIONS = 1, 2, 3, 4, 5, 6


def dtype_word(dtype: np.dtype) -> int:
    """A word that stands for a dtype.  Local."""
    digest = blake2b(repr((dtype.str, dtype.fields and sorted(dtype.fields))).encode(), digest_size=7).digest()
    return int.from_bytes(digest, "little")
