"""The layout in memory of what a channel and its compiled course exchange (see ``course.py``), as word numbers.

A *state* is one row of int64 words: the slots below, then one row per neighbour.  A *call* describes the arrays of one
exchange: the slots ``CALL_*``, then one row of ``FIELD_WORDS`` per field.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import numpy as np

# -- state ---------------------------------------------------------------------------------------------------------
EPOCH = 0  # exchanges begun so far
PHASE = 1  # of the exchange under way: IDLE to LEFT below
CALL = 2  # address of the call under way
REFUSED = 3  # set before an exchange that this process cannot take part in
CULPRIT = 4  # 1 if a neighbour refused the last exchange
LENDS = 5  # whether neighbours read this process's own arrays in the exchange under way
SENDING, COUNT_SENDING = 6, 7  # address and number of the request handles of sends in the exchange under way
MISSED = 8  # the last exchange whose cells this process has not copied
MISSED_BY = 9  # the latest MISSED that neighbours posted with the last exchange
N_FIELDS = 10
LINES = 11  # address of this process's two lines, in which it posts even and odd exchanges
LINE_BYTES = 12
STAGING = 13  # address of this process's staging for even exchanges
STAGING_BYTES = 14  # from there to the staging for odd ones
N_SOURCES, SOURCES = 15, 16  # neighbours whose memory this process reads: number, and the first word of their rows
N_READERS, READERS = 17, 18  # neighbours that read this process's memory
N_RECEIVES, RECEIVES = 19, 20  # neighbours that send messages
N_SENDS, SENDS = 21, 22  # neighbours that receive messages
OWN, N_OWN = 23, 24  # rows of the table that copy from this process's own array: the first, and their number per field
FILL, N_FILL = 25, 26  # rows that copy from the constants
CONSTANTS = 27  # address of the constants
START_MESSAGES, TEST_MESSAGES = 28, 29  # addresses of MPI_Startall and MPI_Testall, or of the simulation's
REQUESTS_IN, REQUESTS_OUT, REQUESTS_SHORT = 30, 31, 32  # addresses of handles: receives, sends, sends of heads only
COUNT_IN, COUNT_OUT, COUNT_SHORT = 33, 34, 35  # number of handles
STATUSES, FLAG = 36, 37  # addresses for the results of MPI_Testall
ON_WAIT, ON_POST = 38, 39  # functions to call in a long wait, and after each post (0: none)
POLLS, YIELDS = 40, 41  # number of polls before giving way to other threads, and before the first call of ON_WAIT
COURSE, COPY = 42, 43  # addresses of the compiled course itself, and of the compiled copies
LOOP_CALL = 44  # address of the call that compiled loops fill
LOOPS_WELCOME = 45  # whether compiled loops may use it
SEGMENT, SEGMENT_BYTES = 46, 47  # the part of memory in which arrays can be lent; they are posted as offsets in it
REFUSE = 48  # function that a compiled loop calls when its arrays are invalid
ARRAY_FIELDS = 49  # offset of numpy's struct in an array object, see array_object.py; 0: arrays are not checked
HELD = 50  # set from the start of an exchange to the wait for it, even if the exchange has failed meanwhile
WENT_ON = 51  # address of a word that a callback sets at its end
LOOP_COURSE = 52  # address of the course that compiled loops run: the plain one, or the traced one
FORM = 53  # address of the form that the traced course fills in
NDIM, EXTENTS = 54, 55  # the local shape that compiled loops must pass; up to MOST_DIMS extents
MOST_DIMS = 64  # as in numpy
GATE = EXTENTS + MOST_DIMS  # address of a word that is not 0 once the gate of the process is closed
IN_USE = GATE + 1  # 1 while a thread runs the course, or prepares arrays for it
THREAD = IN_USE + 1  # the thread whose compiled loops own it; 0: none
CALLS_BACK = THREAD + 1  # whether START_MESSAGES and TEST_MESSAGES are callbacks, which set WENT_ON
LATCH = CALLS_BACK + 1  # address of the latch of the gate, while code that has the interpreter's lock waits; else 0
STREAMS = LATCH + 1  # whether cells are staged past the caches
CARRIER = STREAMS + 1  # address of what this process carries between nodes while it waits (carrying.py); 0: nothing
SLEEPS = CARRIER + 1  # address of the longest sleep in waits for words, as the system takes it; 0: waits do not sleep
TRIED_FROM = SLEEPS + 1  # the exchange from which on both ways are tried, to lend arrays and to stage; 0: never
STAGES_ALL = TRIED_FROM + 1  # whether cells are staged, except in tries, although neighbours could read them in place
TRY_CLOCK = STAGES_ALL + 1  # two words for the time, and one for when the exchange before began, in nanoseconds
TRY_LEAST = TRY_CLOCK + 3  # nanoseconds of the two quickest exchanges of each way in these tries
LANDS_STREAMING = TRY_LEAST + 4  # whether cells are copied into arrays past the caches; 0: by the size of each copy
YIELDS_AGAIN = LANDS_STREAMING + 1  # number of yields in further turns of a wait for a word, after calls of ON_WAIT
HEADER_WORDS = YIELDS_AGAIN + 1
MOST_SLEEPS = 2  # before a call of ON_WAIT
SLEEPERS = 56  # bytes from a word that others wait for in meetings to the number of those that sleep meanwhile

IDLE, BEGUN, ARRIVED, LEFT = 0, 1, 2, 3
TRY_BLOCK, TRY_BLOCKS, TRY_PAUSE = 4, 4, 512  # exchanges in a row by one way, such blocks, and from tries to the next
NO_TIME, CLEARLY = 1 << 62, 20  # the other way is taken if it saves more than this part of the time

# -- a source: a neighbour whose memory this process reads ---------------------------------------------------------
SOURCE_WORDS = 9
S_LINES = 0  # address of its two lines
S_LINE_BYTES = 1
S_SEGMENT = 2  # address to which the offsets it posts are relative
S_STAGING = 3  # address of the cells it stages for this process in even exchanges
S_STAGING_BYTES = 4  # from there to the staging for odd exchanges
S_DONE = 5  # address of the word in which this process stores the last exchange that it has read
S_ROWS = 6  # first row of the table that copies from its array; the rows that copy from its staging follow
S_PIECES = 7  # rows per field, of each kind
S_REFUSED = 8  # the last exchange that it refused

# -- a reader: a neighbour that reads this process's memory --------------------------------------------------------
READER_WORDS = 5
R_DONE = 0  # address of the word in which it stores the last exchange that it has read
R_STAGED = 1  # whether it always reads staging
R_ONE_WAY = 2  # whether this process reads nothing from it
R_ROWS = 3  # first row of the table that stages for it
R_PIECES = 4  # rows per field

# -- a neighbour by messages; the same for both directions -------------------------------------------------------------
MESSAGE_WORDS = 3
M_BUFFER = 0  # address of the message: MESSAGE_HEAD bytes, then the cells
M_ROWS, M_PIECES = 1, 2
MESSAGE_HEAD = 64

# -- what a process posts for one exchange, in memory or at the head of messages -----------------------------------
POSTED_EPOCH = 0
POSTED_REFUSED = 1
POSTED_UNCHANGED = 2  # bit f: field f has not changed since it was last sent
POSTED_MISSED = 3  # the last exchange whose cells the poster has not copied
POSTED_OFFSETS = 4  # per field: its offset in the process's segment; -1: in staging

# -- the state of a meeting: EPOCH, LINE_BYTES and what waits need are the words of a channel's ------------------------
MEMBERS, MEMBER = HEADER_WORDS, HEADER_WORDS + 1  # number of members, and the index of this process
FRAME = HEADER_WORDS + 2  # address of this process's frame
# Where all headers, frames and places are collected, of even meetings; those of odd ones follow.
HEADERS_SEEN, FRAMES_SEEN, LOCATIONS_SEEN = HEADER_WORDS + 3, HEADER_WORDS + 4, HEADER_WORDS + 5
BLOCK_OFFSET = HEADER_WORDS + 6  # of this process's block in its segment
LOCATION = HEADER_WORDS + 7  # of this process's array: LOCATION_WORDS, of which Python writes the strides
LOCATION_OFFSET, LOCATION_FLAGS, LOCATION_STRIDES = 0, 1, 2
LOCATION_WORDS = 16
LENT, STRIDED = 1, 2  # flags: others read it where it lies; it has strides of its own
OUTSIDE = 4  # flag, beside STRIDED: it lies outside the segment, at the address in place of the first stride
BODY_BYTES = 1 << 8  # flags also have this times the size of a small array in the line
CALLS = LOCATION + LOCATION_WORDS  # roll calls so far
ASKS = CALLS + 1  # after each meeting whose number this divides, members measure how far apart they are; 0: never
HOLDS = ASKS + 1  # keys of the plans whose frames this process's lines hold, for even and odd meetings; 0: others
RELAYS = HOLDS + 2  # relays that members have considered so far
SPANS = RELAYS + 1  # whether its group spans nodes: frames then have arrays of up to INLINE_BYTES, lines RAN_AHEAD
RAN_AHEAD = SPANS + 1  # a digest of this process's runs that did not meet (kernels/ahead); 0: none so far
DIFFERS = RAN_AHEAD + 1  # whether a member has posted another digest
IS_FAR = DIFFERS + 1  # whether arrays are quicker relayed than read where they lie
IS_LATE = IS_FAR + 1  # whether words are slow all the same, so that members try both
BLOCKS = IS_LATE + 1  # addresses of the members' blocks; of members on other nodes, of what mirrors them here
LINE_KEY = 1  # word of a line: the key of the run that a compiled loop posted, else 0; SHORT if LINE_SHORT is filled
LINE_SHORT, SHORT_BYTES = 16, 40  # bytes from the start of a line: a second copy of a short array, beside the number
SHORT = 1  # keys are even
LINE_LOCATION, LINE_FRAME, LINE_RAN_AHEAD, LINE_ARRAY = 64, 192, 448, 512  # bytes from the start of a line
FRAME_WORDS = 32  # of which the first half is the header, the second a small array
INLINE_BYTES = FRAME_WORDS * 4
# Result bits of a meeting: an array is lent; headers or places differ from two meetings ago; its number is odd; members
# measure now how far apart they are.
ANY_LENT, RENEWED, ODD, ASK = 1, 2, 4, 8
LINE_ARRAY_BYTES = 4096
RELAYS_ASK = 64  # before each relay whose number this divides, members measure how far apart they are, unless ASKS is 0

# -- a call --------------------------------------------------------------------------------------------------------
CALL_TABLE, CALL_COLUMNS = 0, 1  # the copy table for these arrays: address, words per row
CALL_UNCHANGED = 2  # as POSTED_UNCHANGED
CALL_REQUESTS, CALL_COUNT = 3, 4  # handles of sends straight from the arrays; 0: pack
CALL_FIELDS = 5
FIELD_WORDS = 6
F_ADDRESS = 0  # of the array that cells are copied from
F_OFFSET = 1  # in this process's segment, or -1
F_OBJECT = 2  # the array object, to check that it is unchanged since the call was made; 0: not checked
F_DTYPE = 3  # the object's dtype object; in the call of compiled loops, the dtype_word that they must pass
F_SHAPE = 4  # address of the shape, then the strides, that it had
F_INTO = 5  # address of the array that cells are copied into, usually the same
MOST_FIELDS = 62  # bits of POSTED_UNCHANGED

# -- the parts of a course, and its outcomes -----------------------------------------------------------------------
BEGIN, ARRIVE, LAND, LEAVE, PART = 1, 2, 4, 8, 16
FINISH = ARRIVE | LAND | LEAVE | PART
UPDATE = BEGIN | FINISH
POKE = 32
FINE, REFUSED_BY, ENDED, BUSY = 0, 1, 2, 3
ARRAY_CHANGED, MOVED = 4, 5  # an array differs from its call: before the exchange, which has not begun; or during it
BARRED = 6  # the gate of the process is closed: nothing has begun
TAKEN = 7  # another thread runs the course, or its loops own it: nothing has begun

# -- a form: the line that a traced loop writes after an exchange, with blanks for its numbers -------------------------
FORM_TEXT, FORM_BYTES = 0, 1  # address of the line, and its length
FORM_BLANK = 2  # bytes of each blank
FORM_BEGAN, FORM_TOOK = 3, 4  # addresses of the blanks for times, in nanoseconds
FORM_TURN = 5  # address of the blank for the EPOCH; 0 if the exchange failed
FORM_CLOCK = 6  # when it began and when it ended, in seconds and nanoseconds each
FORM_FILE = 10  # address of the words that all forms of a process share (watch/trace/loops.py)
FORM_WORDS = 11
FILE_DESCRIPTOR = 0  # -1: lines cannot be written any more
FILE_LOST = 1  # lines that could not be written
FILE_BUSY = 2  # whether an exchange is under way

# -- a run: what compiled loops need of the plan of an operation (see loop_run.py) -----------------------------------
RUN_READY = 0  # whether it may be taken; if not, Python runs the plan
RUN_COURSE = 1  # address of the compiled run
RUN_MEETING = 2  # address of the meeting's state; 0: the group is this process alone
RUN_THREAD = 3  # the thread that may take it
RUN_TOKENS = 4  # address of a word that is 0 while an operation of this process is under way
RUN_BARRED = 5  # address of a word that is not 0 once the gate of the process is closed
RUN_KEY = 6  # that all members post
RUN_HEADERS = 7  # address of the headers of all members
RUN_BYTES = 8  # bytes of x that this member posts
RUN_ROWS = 9  # address of words for the addresses of all members' arrays, then of the constants
RUN_SHIFT = 10  # bytes that are added to the members' addresses
RUN_COPY, RUN_TABLE, RUN_COLUMNS = 11, 12, 13  # address of the compiled copies, of their table; words per row
RUN_SOURCES, RUN_FIRST = 14, 15  # number of arrays to copy from; address of the first row of each, and of the end
RUN_SCRATCH = 16  # address of memory to copy to; 0: the result
RUN_FOLD = 17  # address of the compiled fold; 0: nothing is folded
RUN_FOLDED, RUN_COUNT = 18, 19  # address of words for the fold: see `short_fold` in variants.py; elements of each
RUN_X = 20  # the array that must be passed, in ARRAY_WORDS
ARRAY_WORDS = 5 + MOST_DIMS
A_DTYPE, A_WRITTEN, A_NDIM = 0, 1, 2  # its dtype_word, 0: any array; whether it is written to
A_OBJECT, A_BYTES = 3, 4  # its dtype object, and its size
A_EXTENTS = 5  # its shape
RUN_OUT = RUN_X + ARRAY_WORDS  # the array for the result, likewise
RUN_RELAY = RUN_OUT + ARRAY_WORDS  # address of the relay's program that does all the work; 0: there is none
RUN_RELAY_COURSE = RUN_RELAY + 1  # address of the compiled relay
RUN_LATCH = RUN_RELAY_COURSE + 1  # address of the latch of the gate
RUN_NEXT = RUN_LATCH + 1  # address of the next run of a quick call; 0: there is none
RUN_MAKE = RUN_NEXT + 1  # a Python function that makes the array for the result; 0: the caller passes it
RUN_RETURNS = RUN_MAKE + 1  # whether the result is returned
RUN_GO_ON = RUN_RETURNS + 1  # the Python function that goes on after OTHERS
RUN_END = RUN_GO_ON + 1  # the Python function that raises the error of a relay that was given up
RUN_ARGS = RUN_END + 1  # two words for arguments of both
RUN_UNLESS_READ = RUN_ARGS + 2  # address of words: which members have arrays that, if all can be read, are not relayed
RUN_IF_FAR = RUN_UNLESS_READ + 1  # whether they are relayed all the same between far processors
RUN_SEGMENT, RUN_SEGMENT_BYTES = RUN_IF_FAR + 1, RUN_IF_FAR + 2  # where others can read this process's arrays
RUN_AHEAD = RUN_SEGMENT_BYTES + 1  # address of the program of a run that does not meet (kernels/ahead); 0: it meets
RUN_WAYS = RUN_AHEAD + 1  # address of the words by which runs are relayed or fetched; 0: they are not fetched
RUN_FETCH, RUN_FETCH_COURSE = RUN_WAYS + 1, RUN_WAYS + 2  # addresses of the fetch's program and of the compiled fetch
RUN_READ = RUN_FETCH_COURSE + 1  # address of a fetch's program of arrays that all can be read; 0: Python reads them
RUN_BASES, RUN_READ_WAYS = RUN_READ + 1, RUN_READ + 2  # addresses of words: the members' segments; relayed or read
RUN_IF_NEAR = RUN_READ + 3  # whether arrays are relayed all the same where words are quick
RUN_WORDS = RUN_IF_NEAR + 1
LARGE_WAITS = 8  # times as long as for small arrays members wait for one another, on cores of their own, for large ones
BY_PYTHON = 8  # outcome: nothing has begun; Python runs the plan
OTHERS = 9  # outcome: some members are not in this run; Python goes on from the meeting, which IN_USE keeps for it
CUT = 10  # outcome: a relay was given up, whose meeting remains IN_USE
ANOTHER_RUN = 12  # outcome: another member is in another run, which does not meet (kernels/ahead)

# -- a quick call: a compiled function that Python calls (see quick_call.py); objects are given by their addresses -----
QUICK_FIRST = 0  # address of its first run; 0: there is none
QUICK_SLOW = 1  # the Python function that does everything else
QUICK_WATCHED = 2  # address of a word that is not 0 while operations are recorded
QUICK_NONE, QUICK_OUT, QUICK_ARRAY = 3, 4, 5  # None, the string "out", and the type of arrays
QUICK_TYPE, QUICK_FIELDS = 6, 7  # bytes from the start of an object to its type, and to the fields of an array
QUICK_WORDS = 8

# -- a known call: a compiled function that finds a quick call by the objects it is called with (see known_call.py) ---
KNOWN_SLOW = 0  # the Python function that does everything else
KNOWN_CHANGES, KNOWN_AT = 1, 2  # address of a word, and what it was when the rows were filled: else they do not count
KNOWN_COUNT = 3  # rows
KNOWN_TYPE, KNOWN_LIST = 4, 5  # bytes from the start of an object to its type; the type of lists
KNOWN_ARRAYS = 6  # two words for arguments
KNOWN_ROWS = 8
MOST_KNOWN_CALLS, MOST_THINGS, MOST_ITEMS = 8, 6, 4
ROW_GRID, ROW_RUN, ROW_NUMBER = 0, 1, 2  # the grid, the quick call, and the number of arguments
ROW_THINGS = 3  # the axes, then the arguments
THING_ADDRESS = 0  # of an object that does not change, or 0
THING_TYPE, THING_LENGTH, THING_ITEMS = 1, 2, 3  # or one of this type, a list or a tuple, with these items; 0: no other
THING_WORDS = THING_ITEMS + MOST_ITEMS
ROW_WORDS = ROW_THINGS + MOST_THINGS * THING_WORDS
OPERANDS = 5  # x, the grid, the axes, a tuple of arguments, and out

# -- a quick update of halos, likewise (see quick_update.py) -----------------------------------------------------------
FIELDS_STATE = 0  # address of the plan's state
FIELDS_KNOWN = 1  # address of MOST_KNOWN rows: the address of a call, or 0, then its fields
FIELDS_LATCH = 2  # address of the latch of the gate
FIELDS_LATER = 3  # the list of what is done after updates
FIELDS_SLOW, FIELDS_END, FIELDS_NONE = 4, 5, 6  # Python functions: that does everything else, that raises; None
FIELDS_ARGUMENT = 7
FIELDS_WORDS = 8
MOST_KNOWN = 8

# -- the latch of a gate: takes its token while code that has the interpreter's lock lets other threads run ------------
LATCH_TOKENS, LATCH_TOKEN = 0, 1  # the list of tokens, and a token
LATCH_THREAD = 2  # the thread that has taken it; 0: none
LATCH_WORDS = 3

# -- a carrier: the messages between nodes that a member of a meeting sends and receives (see carrying.py) -------
CARRIED, SENT = 0, 1  # the meetings whose lines it has carried, and whose messages it has begun
AWAITED = 2  # address of the line of its own node that it waits for; 0: it waits for messages
FAILED = 3  # whether MPI has failed
SPUN, SPINS = 4, 5  # polls for messages in this meeting without a sleep, and the most of them
NEAR, NEAR_BLOCKS = 6, 7  # the number of members of its node, and the address of words: their blocks
OUTGOING = 8  # address of its message, the same to all nodes
NODES, NODE_ROWS = 9, 10  # the number of nodes with which it exchanges messages; the address of their rows
HANDLES, HANDLE_BYTES = 11, 12  # address of the handles of requests, and bytes of each
ISEND, IRECV = 13, 14  # addresses of MPI_Isend and MPI_Irecv
DATATYPE, COMMUNICATOR, TAG = 15, 16, 17  # handles of MPI, and the tag of all messages
CARRIER_WORDS = 18
NODE_PEER = 0  # the member of another node that sends and receives its messages
NODE_INBOX, NODE_INBOX_BYTES = 1, 2  # address and size of the memory for its message
NODE_MEMBERS, NODE_MIRRORS = 3, 4  # the number of its members; the address of words: the blocks that mirror theirs
NODE_WORDS = 5
# A message: a head for each member, and behind all of them their arrays, each from a multiple of BODY_ALIGNED bytes.
HEAD_KEY, HEAD_OFFSET, HEAD_FLAGS, HEAD_RAN_AHEAD, HEAD_FRAME = 0, 1, 2, 3, 4
HEAD_WORDS, BODY_ALIGNED = HEAD_FRAME + FRAME_WORDS, 16

# -- a relay: arrays that pass through staging memory in steps (see relay.py) -----------------------------------------
RELAY_STEPS = 0
RELAY_STATE = 1  # address of the state of the meeting, where its STREAMS says whether cells are staged past the caches
RELAY_LANDS_STREAMING = 2  # whether they are copied from there past the caches: where the result is large
RELAY_RINGS = 3  # address of words: the address of each member's ring
RELAY_PARTS, RELAY_PART_BYTES = 4, 5  # the parts of a ring that relays take by turns
RELAY_COPY, RELAY_TABLE, RELAY_COLUMNS = 6, 7, 8  # address of the compiled copies, of their table; words per row
RELAY_PACKS, RELAY_LANDS = 9, 10  # addresses of words: the first row of each step, and the end
RELAY_KEEPS = 16  # likewise, of the rows that copy from this member's own array to its result
RELAY_FOLD = 11  # address of the compiled fold; 0: nothing is folded
RELAY_FOLDS = 12  # address of words of each step: elements, bytes from the start of the result, and of each row
RELAY_ROWS, RELAY_BUFFER = 13, 14  # address of words for addresses of rows, and of the fold's buffer, or 0
RELAY_OWN_IN_RING = 15  # whether a member folds its own row from its ring, not from its array
RELAY_SCRATCH = 17  # address of memory for what a member folds for others alone; 0: that is a part of its result
RELAY_WORDS = 18
# A relay's post is its meeting's number, then its step in these bits.  A sleep compares the lower half of a word, so a
# part of the number is there.
RELAY_STEP_BITS = 24
FROM_X, INTO_RESULT, FIRST_RING = 0, 1, 2  # bases of the table's rows; then the other members' rings
FOLD_ELEMENTS, FOLD_OUT, FOLD_FIRST = 0, 1, 2
NO_ROW = -1  # in place of the bytes from the start of a row: a member has none

# -- a fetch: copies of the members' arrays, also out of the memory of other processes (see fetching.py) ---------------
FETCH_STATE = 0  # address of the state of the meeting
FETCH_SOURCES = 1  # address of words: the addresses of the members' arrays, each in its own process
FETCH_COPY, FETCH_TABLE, FETCH_COLUMNS, FETCH_COPIES = 2, 3, 4, 5  # the compiled copies and their table; its rows
FETCH_STREAMS = 6  # whether they stream
FETCH_READS, FETCH_CALLS = 7, 8  # address of a table of the system's copies, and its rows
FETCH_DONE = 9  # the calls that have been made
FETCH_IS_LONG = 10  # whether other threads of Python run meanwhile
FETCH_READERS = 11  # address of a word for each member: whether it reads this process's array
FETCH_WORDS = 12
UNREAD = 13  # outcome: a call did not copy all its bytes

# -- the quicker of two ways, of which 0 is a relay and 1 a fetch, or a read (see quicker_way.py) ----------------------
WAYS_RUNS = 0  # runs so far, since both were tried
WAYS_UNTIL = 1  # the next run that Python makes: compiled code makes those before it
WAYS_WAY = 2
WAYS_LEAST = 3  # nanoseconds of the quickest run of each way lately
WAYS_CLOCK = 5  # words for the time: seconds and nanoseconds
WAYS_WORDS = 7
BY_WAYS, BY_READING = 14, 15  # results of a meeting: members run it as RUN_WAYS, or as RUN_READ_WAYS, say

# -- why a compiled loop's array is invalid -----------------------------------------------------------------------
WRONG_COUNT, WRONG_DTYPE, WRONG_SHAPE, NOT_CONTIGUOUS, READ_ONLY, HAS_FUNCTIONS = 1, 2, 3, 4, 5, 6

# The number of the call by which Linux lets a process sleep until a word of shared memory changes; 0: there is none.
# It compares the lower half of the word, which is at its address on processors of this byte order.
_KNOWN = sys.platform == "linux" and sys.byteorder == "little"
FUTEX = {"x86_64": 202, "aarch64": 98}.get(platform.machine(), 0) if _KNOWN else 0


def dtype_word(dtype: np.dtype) -> int:
    """A number that identifies a dtype, with its fields and their offsets.  Local."""
    return int.from_bytes(blake2b(repr(_parts(dtype)).encode(), digest_size=7).digest(), "little")


def _parts(dtype: np.dtype) -> tuple[Any, ...]:
    fields: Mapping[str, tuple[Any, ...]] = dtype.fields or {}
    return dtype.str, dtype.shape, sorted((name, _parts(of), at) for name, (of, at, *_) in fields.items())
