"""Words of the states that runs without a meeting share with compiled code, as kernels/protocol/slots.py has others."""

from __future__ import annotations

from spmd_grid.kernels.protocol import slots as at

# The state that the members of a node have for their runs: first the words that waits need, as a meeting's state.
SEEN = at.HEADER_WORDS + 2  # the last run that all members of the node are known to have begun, and alike
KEYS = SEEN + 1  # keys of this process's last runs, by number
LINES = 8  # lines of a member, keys, and runs that a member may be ahead of others of its node, twice
OTHER = KEYS + LINES  # another run that was found: its number, its key, and the member that runs it
TESTS = OTHER + 3  # tests of messages before ON_WAIT is called
PROGRAM = TESTS + 1  # address of the program of the last run
SEGMENT, SEGMENT_BYTES = PROGRAM + 1, PROGRAM + 2  # the memory of this process that others see
BLOCKS = PROGRAM + 3  # addresses of the blocks of the node's members: lines
# Bytes from the start of a line; its first words are its number, its key, and where a large array is.
LINE_ARRAY = 64

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
DATATYPE, COMMUNICATOR, TAG = 16, 17, 18  # handles of MPI, and the tag of all messages
MEETING = 19  # address of the state of the group's meeting, where RAN_AHEAD is
ARRIVED, SENT = 20, 21  # the last runs whose messages have arrived, and have been begun
CARRIES, CARRY_ROWS = 22, 23  # lines of the node that go to messages, likewise
PACKS, PACK_ROWS = 24, 25  # copies to messages, likewise
LARGE = 26  # whether arrays are large: they do not travel in lines and behind keys
STAGING = 27  # address of memory for an array that others of the node read, where they cannot where it lies
WORKED = 28  # the last run whose copies have been made
DIRECT = 29  # whether large arrays come where they belong, so that copies need not wait for them
WORDS = 30
NO_ARRAY, OWN_ARRAY, RECEIVED = 0, 1, 2

# A message: the number of the run, its key, then cells.
PEER, BUFFER, BYTES = 0, 1, 2  # of a message: the other member, the address of its memory, its size
SOURCES, SOURCE_ROWS = 3, 4  # of one to receive: their number, and the address of their numbers among RUN_ROWS
BODY_BYTES, BODY, BODY_AT = 5, 6, 7  # of a large array: its address, or 0 and its place in x or out
MESSAGE_WORDS = 8
# A copy to a message: a source, the rows of the table, and the address to copy to.
PACK_SOURCE, PACK_FIRST, PACK_LAST, PACK_CELLS = 0, 1, 2, 3
PACK_WORDS = 4
CELLS = 16  # bytes from the start of a message
NEED_MEMBER, NEED_SOURCE = 0, 1  # a line to read: whose, and the number of its array among RUN_ROWS
NEED_SEGMENT = 2  # address to which the offset of a large array is relative
NEED_WORDS = 3
