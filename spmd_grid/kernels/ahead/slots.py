"""Words of the states that runs without a meeting share with compiled code, as kernels/protocol/slots.py has others."""

from __future__ import annotations

from spmd_grid.kernels.protocol import slots as at

# The state that the members of a node have for their runs: first the words that waits need, as a meeting's state.
SEEN = at.HEADER_WORDS + 2  # the last run that all members of the node are known to have begun, and alike
KEYS = SEEN + 1  # keys of this process's last runs, by number
LINES = 32  # lines of a member, keys, and runs that a member may be ahead of others of its node, twice
OTHER = KEYS + LINES  # another run that was found: its number, its key, and the member that runs it
TESTS = OTHER + 3  # tests of messages before ON_WAIT is called
PROGRAM = TESTS + 1  # address of the program of the last run
SEGMENT, SEGMENT_BYTES = PROGRAM + 1, PROGRAM + 2  # the memory of this process that others see
TAG = PROGRAM + 3  # of the messages of the last run: see messages.py
NUMBERS, TAGS = TAG + 1, TAG + 2  # how many numbers of runs tags tell apart, and how many tags there are; powers of two
STATUS_TAG = TAG + 3  # bytes before the tag in MPI's status of a message
COPIES, COPY_RUNS = TAG + 4, TAG + 5  # address of this member's copies for others of the node; the last run of each
COPY_SLOTS, COPY_BYTES = 4, 1 << 15  # their number, and the bytes of the largest
BLOCKS = COPY_RUNS + COPY_SLOTS  # addresses of the blocks of the node's members: lines, and two words
# Bytes from the start of a line; its first words are its number, its key, and where a large array is.  LINE_PASSED is
# the number again, once what was received for others of the node is there too.
LINE_PASSED, LINE_ARRAY = 64, 128
LINE_POST_BYTES = 1 << 13  # of the largest array, or part of one, in a line

# The program of a plan's run.
STATE = 0
KEY = 1  # what all members have agreed on, when the plan was made
SENDS, SEND_ROWS = 2, 3  # messages to other nodes: their number, and the address of their rows
RECEIVES, RECEIVE_ROWS = 4, 5  # messages from other nodes, likewise
POSTS = 6  # what others of the node read in this member's line: NO_ARRAY, OWN_ARRAY, or a RECEIVED one
POST_BYTES = 7
NEEDS, NEED_ROWS = 8, 9  # lines of the node to read: their number, and the address of their rows
TABLE, COLUMNS = 10, 11  # address of the table of copies to messages; words per row
HANDLES, HANDLE_BYTES = 12, 13  # address of the handles of receives, then of sends; bytes of each
ISEND, IRECV = 14, 15  # addresses of MPI_Isend and MPI_Irecv
DATATYPE, COMMUNICATOR, ANY_TAG = 16, 17, 18  # handles of MPI, and what stands for any tag
MEETING = 19  # address of the state of the group's meeting, where RAN_AHEAD is
ARRIVED, SENT = 20, 21  # the last runs whose messages have arrived, and have been begun
CARRIES, CARRY_ROWS = 22, 23  # lines of the node that go to messages, likewise
PACKS, PACK_ROWS = 24, 25  # copies to messages, likewise
PIECES = 26  # address of the program of the pieces in which large arrays travel; 0: they travel in lines and messages
WORKED = 27  # the last run whose copies have been made
PASSES, PASS_ROWS = 28, 29  # copies of what was received to this member's line, for others of the node, likewise
POST_FROM = 30  # the first byte of this member's array in its line
POST_FIRST, POST_LAST = 31, 32  # or rows of the table that pack boxes of it, if there are any
IPROBE = 33  # address of MPI_Iprobe
WORDS = 34
NO_ARRAY, OWN_ARRAY, RECEIVED = 0, 1, 2

# A message.
PEER, BUFFER, BYTES = 0, 1, 2  # the other member, the address of its memory, its size
SOURCES, SOURCE_ROWS = 3, 4  # of one to receive: their number, and the address of their numbers among RUN_ROWS
MESSAGE_WORDS = 5
# A copy to a message: a source, the rows of the table, and the address to copy to.
PACK_SOURCE, PACK_FIRST, PACK_LAST, PACK_CELLS = 0, 1, 2, 3
PACK_WORDS = 4
# A copy to a line: the address to copy from, bytes from the start of the line, and the number of bytes.
PASS_FROM, PASS_AT, PASS_BYTES = 0, 1, 2
PASS_WORDS = 3
NEED_MEMBER, NEED_SOURCE = 0, 1  # a line to read: whose, and the number of its array among RUN_ROWS
NEED_SEGMENT = 2  # address to which the offset of a large array is relative
NEED_WORD, NEED_AT = 3, 4  # bytes from the start of the line: of the word that says that the array is there, and of it
NEED_WORDS = 5

# A program of pieces (see pieces.py).
STEP, TAKE, BEGUN = 0, 1, 2  # steps and takes of this run that are done, and sends begun
LENT = 3  # whether others of the node read this member's array or memory
STEPS, STEP_ROWS, TAKES, TAKE_ROWS = 4, 5, 6, 7  # the rows of departures follow those of steps
GATE, HERE = 8, 9  # the first step that needs lines of the node; the last run in which they were there
ARRIVALS, ARRIVAL_ROWS = 10, 11  # pieces to receive, in the order of their senders
LEAVE_ROWS, INPUT_ROWS = 12, 13  # pieces to send, and inputs of folds, of all steps
PIECE_HANDLES = 14  # address of the handles of arrivals, and then of sends
FOLD, FOLDED = 15, 16  # address of the compiled fold, and of words for the addresses of its inputs
MEMORY = 17  # address of this member's memory, of which the first POST_BYTES are for an array that others cannot read
PREPARED, PREPARE_ROWS = 18, 19  # rows of the table that copy x there, for others to read; 0: they read x if they can
PIECE_TABLE, PIECE_COLUMNS = 20, 21  # address of the table of all copies; words per row
DEPARTED, DEPARTURES = 22, 23  # departures of this run that are made, and all of them
# Takes after which nothing of others of the node is read; TAKES + 1: not before the end; TAKES + 2: not before the
# messages have gone, which MPI reads where others have them.
LAST_READ = 24
NAPS = 25  # whether this member sends nothing, so that it may look less often for what comes
NAP, BEGAN, NOW = 26, 28, 30  # seconds and nanoseconds: of a nap, when the pieces of this run began to come, and now
LANDS = 32  # whether some pieces come to the result itself
COPIED = 33  # rows of the table that copy what others of the node read of x to a copy; 0: they read x, or PREPARED ones
PIECE_WORDS = 34
FIRST_ARRIVAL, LAST_ARRIVAL = 0, 1  # of a step: handles of the pieces that it waits for
FIRST_INPUT, LAST_INPUT, FOLD_INTO, ELEMENTS = 2, 3, 4, 5  # what it folds, into which address
FIRST_PACKED, LAST_PACKED = 6, 7  # rows of the table that copy from x to the memory
FIRST_LEAVE, LAST_LEAVE = 8, 9
MADE = 10  # the number of pieces for others of the node that are there after it
AWAITS = 11  # whether it waits for any piece: also for such as have no handle, since they open a run
STEP_WORDS = 12
ARRIVAL_PEER, ARRIVAL_AT, ARRIVAL_BYTES, ARRIVAL_HANDLE = 0, 1, 2, 3
ARRIVAL_LANDS = 4  # whether it comes to byte ARRIVAL_AT of the result, which is an address else
ARRIVAL_WORDS = 5
IN_MEMORY = -1  # a position: a source among RUN_ROWS and a byte of its array, or IN_MEMORY and an address
POSITION_SOURCE, POSITION_AT = 0, 1
POSITION_WORDS = 2
LEAVE_PEER, LEAVE_BYTES = 2, 3  # of a piece to send, after its position
LEAVE_WORDS = 4
TAKE_MEMBER, TAKE_MADE = (
    2,
    3,
)  # of a take, after its position: a member of the node, and how many pieces it must have made
TAKE_FIRST, TAKE_LAST = 4, 5  # the rows of the table that copy to the result
TAKE_WORDS = 6
MADE_BITS = 20  # a member's word has the number of the run, then that of pieces in these bits
